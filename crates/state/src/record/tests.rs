//! Tests of the record envelope.
