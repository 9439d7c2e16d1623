//! Service: accounts, credentials, STS.
