//! Service: the VPC half of EC2.
