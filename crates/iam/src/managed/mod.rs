//! AWS's managed policies: constants of this product, equal on every cloud (identity.md 2.6).
//!
//! Each is a document in a file of its own, compiled once. Our documents mean what AWS's policies of that name mean.
//! Issue 4 fills the catalogue; an ARN that is not in it cannot be attached and makes its holder's decisions fail as
//! unreadable, never as if the policy were empty.

use std::sync::{Arc, LazyLock};

use aws_types::Arn;
use policy::{NamedPolicy, Policy, PolicyKind};

/// Name and document of each policy.
const DOCUMENTS: &[(&str, &str)] = &[("AdministratorAccess", include_str!("AdministratorAccess.json"))];

static COMPILED: LazyLock<Vec<NamedPolicy>> = LazyLock::new(|| {
    DOCUMENTS
        .iter()
        .map(|(name, text)| NamedPolicy {
            id: arn_text(name).into(),
            // The documents are ours, and a test compiles each.
            policy: Arc::new(Policy::parse(text, PolicyKind::Identity).expect("a managed policy is valid")),
        })
        .collect()
});

fn arn_text(name: &str) -> String {
    format!("arn:aws:iam::aws:policy/{name}")
}

/// ARN of the policy of that name, if there is one.
pub fn find_arn(name: &str) -> Option<Arn> {
    DOCUMENTS
        .iter()
        .find(|(own, _)| *own == name)
        .and_then(|(name, _)| Arn::parse(&arn_text(name)))
}

/// The compiled policy with this ARN.
pub fn find(arn: &str) -> Option<NamedPolicy> {
    COMPILED.iter().find(|policy| policy.id.as_ref() == arn).cloned()
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENTS, find, find_arn};

    #[test]
    fn every_document_compiles_and_is_found_by_arn() {
        for (name, _) in DOCUMENTS {
            let arn = find_arn(name).expect("an ARN");
            assert!(!find(arn.as_str()).expect("compiled").policy.is_empty(), "{name}");
        }
        assert!(find("arn:aws:iam::aws:policy/NoSuchPolicy").is_none());
    }
}
