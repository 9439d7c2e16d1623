//! The IAM policy language and its evaluation. Pure: no I/O, no clock, no store.
