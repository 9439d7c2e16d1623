//! The front door: TLS, limits, lockout, audit, dispatch to registered operations.
