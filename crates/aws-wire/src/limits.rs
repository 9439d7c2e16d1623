//! Bounds on what a request may make us hold. The size of a body is the gateway's to cap.

/// Parameters in a form or query string.
pub(crate) const FORM_PARAMETERS_MAX: usize = 10_000;

/// Names between the dots of a form parameter; `Filter.1.Value.1` has four.
pub(crate) const FORM_NESTING_MAX: usize = 16;

/// Entries in a list or map of a form.
pub(crate) const FORM_LIST_MAX: usize = 1024;

/// Elements within elements of an XML body.
pub(crate) const XML_NESTING_MAX: usize = 64;

/// Elements in an XML body. A DeleteObjects request has 1 000 objects of at most six elements.
pub(crate) const XML_ELEMENTS_MAX: usize = 50_000;

/// Bytes of a caller's value that an error message repeats.
pub(crate) const ECHOED_VALUE_MAX: usize = 128;
