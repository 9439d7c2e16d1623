//! The front door with real clients: boto3, the AWS CLI and curl over TLS.

mod cloud;
mod errors;
mod operation;
mod protection;
mod transport;
