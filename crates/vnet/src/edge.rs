//! The edge that all networks of a cloud share: who is connected to it and has which public address.
//!
//! The maps here are the whole truth about the edge namespace: `converge` makes it equal to them and to the edge
//! program. Networks appear in them before their devices do. Called by `engine`, under its lock.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::compile;
use crate::converge::converge;
use crate::error::VnetError;
use crate::kernel::namespace::Namespace;
use crate::program::EdgeProgram;

/// The edge and who is connected to it.
pub(crate) struct Edge {
    name: String,
    mtu: u32,
    /// What `ensure_edge` was given last.
    pub(crate) program: Option<EdgeProgram>,
    /// Networks by number, with their identities.
    pub(crate) networks: BTreeMap<u32, String>,
    /// The number of the network that has each public address.
    pub(crate) public: BTreeMap<Ipv4Addr, u32>,
}

impl Edge {
    /// An edge with nobody connected.
    pub(crate) fn new(name: String, mtu: u32, program: Option<EdgeProgram>) -> Edge {
        Edge {
            name,
            mtu,
            program,
            networks: BTreeMap::new(),
            public: BTreeMap::new(),
        }
    }

    /// The edge's namespace, which is made if there is none.
    pub(crate) fn ensure_namespace(&self) -> Result<Namespace, VnetError> {
        Namespace::ensure(&self.name)
    }

    /// Makes the namespace equal; says whether something had to be changed.
    pub(crate) fn converge(&self) -> Result<bool, VnetError> {
        let namespace = self.ensure_namespace()?;
        let desired = compile::edge(self.program.as_ref(), &self.networks, &self.public, self.mtu);
        Ok(namespace.run(|| converge(&desired, None))?.changed)
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        *self = Edge::new(std::mem::take(&mut self.name), self.mtu, None);
    }
}
