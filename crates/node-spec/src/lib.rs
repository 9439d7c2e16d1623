//! The contract between control plane and agents: specs that services write, observations that nodes write.
