//! The vocabulary every room shares: ids, ARNs, tags, filters, paging tokens, the AWS error and its catalogue.
