//! Named bounds of the shared vocabulary. Numbers are AWS's where AWS documents one.

/// Most values one filter may name (EC2 API reference, "Filtering": 200).
pub const FILTER_VALUES_MAX: usize = 200;
/// Most filters one request may carry (EC2 API reference: 50 in practice; ours leaves room).
pub const FILTERS_MAX: usize = 200;
/// Most tags on one resource, not counting `aws:` tags.
pub const TAGS_PER_RESOURCE_MAX: usize = 50;
/// Longest tag key in Unicode scalar values.
pub const TAG_KEY_CHARS_MAX: usize = 128;
/// Longest tag value in Unicode scalar values.
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// Items of a page when the request names no `MaxResults`.
pub const PAGE_ITEMS_DEFAULT: usize = 1000;
