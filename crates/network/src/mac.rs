//! MAC addresses: `02:` and 40 bits of a hash of the interface's id; on a collision the next of the sequence.
//!
//! The address is kept for the interface's life and unique in the cloud: neighbours are permanent entries made from the
//! records, and a guest must never meet another one's.

use crate::error::NetworkError;
use crate::limits;
use crate::records::Interface;
use aws_types::AwsError;
use aws_types::ids::NetworkInterfaceId;
use sha2::{Digest, Sha256};
use state::Tx;

/// The `probe`-th address of an interface.
fn candidate(id: &NetworkInterfaceId, probe: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(id.as_str().as_bytes());
    hash.update(probe.to_be_bytes());
    let digest = hash.finalize();
    format!(
        "02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
        digest[0], digest[1], digest[2], digest[3], digest[4]
    )
}

/// A MAC that no other interface has.
///
/// # Errors
/// Internal if all candidates are taken; the store could not be read.
pub(crate) async fn choose(tx: &Tx, id: &NetworkInterfaceId) -> Result<String, NetworkError> {
    for probe in 0..limits::MAC_PROBES_MAX {
        let mac = candidate(id, probe);
        if tx.find_unique::<Interface>("mac", &[&mac]).await?.is_none() {
            return Ok(mac);
        }
    }
    tracing::error!(interface = %id, "every MAC candidate is taken");
    Err(AwsError::internal().into())
}

#[cfg(test)]
mod tests {
    use super::candidate;
    use aws_types::ids::NetworkInterfaceId;

    #[test]
    fn macs_are_local_unicast_and_depend_on_the_probe() {
        let id = NetworkInterfaceId::parse("eni-0123456789abcdef0").expect("id");
        let mac = candidate(&id, 0);
        assert!(mac.starts_with("02:"), "{mac}");
        assert_eq!(mac.len(), 17);
        assert_eq!(mac, candidate(&id, 0));
        assert_ne!(mac, candidate(&id, 1));
    }
}
