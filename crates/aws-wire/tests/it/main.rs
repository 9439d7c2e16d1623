//! Integration tests of aws-wire: the codecs against AWS's own client library (`botocore`).

mod botocore;
mod canonical;
mod errors;
