//! Who a request acts as, and how a policy's `Principal` clause names it (identity.md 2.5, R45, R51).
//!
//! The match says how closely the clause names the caller, because in the caller's own account a direct name is
//! enough alone while the account's name only delegates. Names are exact; there are no partial wildcards.

use aws_types::{AccountId, Arn};

/// A principal that has proved who it is, or `Anonymous`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A user, by long-term key or by GetSessionToken.
    User {
        /// `arn:aws:iam::<account>:user<path><name>`.
        arn: Arn,
        /// Owner.
        account: AccountId,
        /// `AIDA…`.
        id: String,
        /// Name without path.
        name: String,
    },
    /// A session of a role.
    RoleSession {
        /// `arn:aws:sts::<account>:assumed-role/<role>/<session>`.
        arn: Arn,
        /// `arn:aws:iam::<account>:role<path><name>`.
        role_arn: Arn,
        /// Owner of the role.
        account: AccountId,
        /// `AROA…`.
        role_id: String,
        /// Name that the session was given.
        session_name: String,
    },
    /// A user's session from GetFederationToken.
    FederatedUser {
        /// `arn:aws:sts::<account>:federated-user/<name>`.
        arn: Arn,
        /// The user who asked for the session.
        user_arn: Arn,
        /// Owner of the user.
        account: AccountId,
        /// Name of the session.
        name: String,
    },
    /// A service of this cloud, such as `ec2.amazonaws.com`.
    Service {
        /// The service's principal name.
        name: &'static str,
    },
    /// An unsigned request.
    Anonymous,
}

impl Principal {
    /// The account the principal belongs to; services and anonymous callers have none.
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Principal::User { account, .. }
            | Principal::RoleSession { account, .. }
            | Principal::FederatedUser { account, .. } => Some(*account),
            Principal::Service { .. } | Principal::Anonymous => None,
        }
    }

    /// The ARN that GetCallerIdentity and refusals show; a service's name; `anonymous`.
    pub fn shown(&self) -> &str {
        match self {
            Principal::User { arn, .. }
            | Principal::RoleSession { arn, .. }
            | Principal::FederatedUser { arn, .. } => arn.as_str(),
            Principal::Service { name } => name,
            Principal::Anonymous => "anonymous",
        }
    }

    /// `aws:PrincipalArn`: a role session's is its role's.
    pub fn principal_arn(&self) -> Option<&str> {
        match self {
            Principal::User { arn, .. } | Principal::FederatedUser { arn, .. } => Some(arn.as_str()),
            Principal::RoleSession { role_arn, .. } => Some(role_arn.as_str()),
            Principal::Service { .. } | Principal::Anonymous => None,
        }
    }

    /// `aws:userid`, which GetCallerIdentity shows as `UserId`.
    pub fn userid(&self) -> Option<String> {
        match self {
            Principal::User { id, .. } => Some(id.clone()),
            Principal::RoleSession {
                role_id,
                session_name,
                ..
            } => Some(format!("{role_id}:{session_name}")),
            Principal::FederatedUser { account, name, .. } => Some(format!("{account}:{name}")),
            Principal::Service { name } => Some((*name).to_owned()),
            Principal::Anonymous => None,
        }
    }

    /// `aws:username`, which only users have.
    pub fn username(&self) -> Option<&str> {
        match self {
            Principal::User { name, .. } => Some(name),
            _ => None,
        }
    }

    /// `aws:PrincipalType`.
    pub fn kind(&self) -> &'static str {
        match self {
            Principal::User { .. } => "User",
            Principal::RoleSession { .. } => "AssumedRole",
            Principal::FederatedUser { .. } => "FederatedUser",
            Principal::Service { .. } => "Service",
            Principal::Anonymous => "Anonymous",
        }
    }
}

/// How closely a clause names a principal; later is closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrincipalMatch {
    /// Not at all.
    No,
    /// Its account: delegates to the account's own policies.
    Account,
    /// The role behind the session, or the user behind a federated user: stands in for the identity layer.
    Behind,
    /// The principal itself, or everyone: enough alone in the same account.
    Direct,
}

/// One name in a `Principal` or `NotPrincipal` element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrincipalName {
    /// `*` or `{"AWS": "*"}`.
    Everyone,
    /// A 12-digit id or a root ARN.
    Account(AccountId),
    /// A user, role, assumed-role session or federated user by ARN, or any of them by unique id.
    Entity(String),
    /// An identity provider.
    Federated(String),
    /// A service by its principal name.
    Service(String),
    /// S3's canonical user id.
    CanonicalUser(String),
}

impl PrincipalName {
    /// How closely this name names `principal`.
    pub fn matches(&self, principal: &Principal) -> PrincipalMatch {
        let direct = |yes: bool| {
            if yes {
                PrincipalMatch::Direct
            } else {
                PrincipalMatch::No
            }
        };
        match self {
            PrincipalName::Everyone => PrincipalMatch::Direct,
            PrincipalName::Account(account) if principal.account() == Some(*account) => {
                PrincipalMatch::Account
            }
            PrincipalName::Account(_) | PrincipalName::Federated(_) | PrincipalName::CanonicalUser(_) => {
                PrincipalMatch::No
            }
            PrincipalName::Service(name) => {
                direct(matches!(principal, Principal::Service { name: own } if own == name))
            }
            PrincipalName::Entity(name) => match principal {
                Principal::User { arn, id, .. } => direct(arn.as_str() == name || id == name),
                Principal::RoleSession {
                    arn,
                    role_arn,
                    role_id,
                    ..
                } => {
                    if arn.as_str() == name {
                        PrincipalMatch::Direct
                    } else if role_arn.as_str() == name || role_id == name {
                        PrincipalMatch::Behind
                    } else {
                        PrincipalMatch::No
                    }
                }
                Principal::FederatedUser { arn, user_arn, .. } => {
                    if arn.as_str() == name {
                        PrincipalMatch::Direct
                    } else if user_arn.as_str() == name {
                        PrincipalMatch::Behind
                    } else {
                        PrincipalMatch::No
                    }
                }
                Principal::Service { .. } | Principal::Anonymous => PrincipalMatch::No,
            },
        }
    }
}
