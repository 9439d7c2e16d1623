//! Volumes of this node: made, removed, published to guests and taken back.
//!
//! The provider's calls are idempotent by volume id, so nothing needs to be remembered between two of them: an agent that
//! was killed asks again. Only [`VolumeIntent::Deleted`] removes data. The export of a volume is a process of its own that
//! outlives the agent; a volume is free for others only after its export is gone *and* the provider has sealed it.

use crate::error::{VolumeError, chain};
use crate::limits;
use aws_types::ids::VolumeId;
use block::export::ExportManager;
use block::id::{NodeId as ProviderNode, SnapshotId as ProviderSnapshot, VolumeId as ProviderVolume};
use block::provider::{CreateVolume, ProviderError, PublishVolume, VolumeProvider};
use node_spec::{SnapshotSource, VolumeFailure, VolumeIntent, VolumeSpec, VolumeState};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Makes, publishes and removes volumes.
pub struct VolumeKeeper {
    provider: Arc<dyn VolumeProvider>,
    exports: ExportManager,
    node: ProviderNode,
    failed: Mutex<HashMap<VolumeId, (VolumeFailure, String)>>,
    changed: watch::Sender<u64>,
}

/// A published volume, as a guest's disk reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// NBD server.
    pub socket: PathBuf,
}

impl VolumeKeeper {
    /// A keeper over a provider and its exports; `node` names this machine at the provider.
    pub fn new(
        provider: Arc<dyn VolumeProvider>,
        exports: ExportManager,
        node: ProviderNode,
    ) -> VolumeKeeper {
        VolumeKeeper {
            provider,
            exports,
            node,
            failed: Mutex::new(HashMap::new()),
            changed: watch::Sender::new(0),
        }
    }

    /// The provider, for imports.
    pub fn provider(&self) -> &Arc<dyn VolumeProvider> {
        &self.provider
    }

    /// Wakes when any volume was made, failed or removed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Makes the spec true and says what is. An error is not definite: ask again.
    ///
    /// # Errors
    /// The provider could not say; nothing was decided.
    pub async fn apply(&self, spec: &VolumeSpec) -> Result<VolumeState, VolumeError> {
        let state = match &spec.intent {
            VolumeIntent::Present { size_bytes, source } => {
                self.ensure(&spec.volume, *size_bytes, source.as_ref()).await
            }
            VolumeIntent::Deleted => self.delete(&spec.volume).await,
        }?;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &state {
            VolumeState::Error { failure, message } => {
                failed.insert(spec.volume.clone(), (*failure, message.clone()));
            }
            VolumeState::Ready { .. } | VolumeState::Deleted => {
                failed.remove(&spec.volume);
            }
        }
        drop(failed);
        self.changed.send_modify(|n| *n += 1);
        Ok(state)
    }

    async fn ensure(
        &self,
        volume: &VolumeId,
        size_bytes: u64,
        source: Option<&SnapshotSource>,
    ) -> Result<VolumeState, VolumeError> {
        let id = provider_id(volume)?;
        let request = match source {
            None => CreateVolume::blank(id, size_bytes),
            Some(source) => match self.clone_request(volume, id, size_bytes, source).await? {
                Ok(request) => request,
                Err(state) => return Ok(state),
            },
        };
        match self.provider.create_volume(request).await {
            Ok(view) => Ok(VolumeState::Ready {
                handle: view.handle.to_string(),
            }),
            Err(error) => definite(volume, "making it", error),
        }
    }

    /// The request of a clone, or the state that says why there can be none.
    async fn clone_request(
        &self,
        volume: &VolumeId,
        id: ProviderVolume,
        size_bytes: u64,
        source: &SnapshotSource,
    ) -> Result<Result<CreateVolume, VolumeState>, VolumeError> {
        let missing = |message: String| VolumeState::Error {
            failure: VolumeFailure::SourceMissing,
            message,
        };
        let Ok(snapshot) = ProviderSnapshot::new(source.snapshot.as_str()) else {
            return Ok(Err(missing(format!("{} is no snapshot id", source.snapshot))));
        };
        let Ok(handle) = source.handle.parse() else {
            return Ok(Err(missing(format!("{} has no usable handle", source.snapshot))));
        };
        match self.provider.fetch_snapshot(&snapshot, Some(handle)).await {
            Ok(view) => Ok(Ok(CreateVolume::from_snapshot(id, size_bytes, &view))),
            Err(error @ ProviderError::NotFound(_)) => Ok(Err(missing(chain(&error)))),
            Err(source) => Err(VolumeError::Provider {
                volume: volume.clone(),
                attempt: "reading its snapshot",
                source,
            }),
        }
    }

    async fn delete(&self, volume: &VolumeId) -> Result<VolumeState, VolumeError> {
        let id = provider_id(volume)?;
        self.provider
            .delete_volume(&id, None)
            .await
            .map(|_| VolumeState::Deleted)
            .map_err(|source| VolumeError::Provider {
                volume: volume.clone(),
                attempt: "removing it",
                source,
            })
    }

    /// Publishes a volume to this node and makes sure its export serves. Already so is success.
    ///
    /// # Errors
    /// [`VolumeError::NotMade`] is definite; everything else may pass.
    pub async fn publish(&self, volume: &VolumeId) -> Result<Option<Published>, VolumeError> {
        let id = provider_id(volume)?;
        let view = match self.provider.fetch_volume(&id, None).await {
            Ok(view) => view,
            Err(ProviderError::NotFound(_)) => {
                let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                return match failed.get(volume) {
                    Some((failure, message)) => Err(VolumeError::NotMade {
                        volume: volume.clone(),
                        failure: *failure,
                        message: message.clone(),
                    }),
                    None => Ok(None),
                };
            }
            Err(source) => {
                return Err(VolumeError::Provider {
                    volume: volume.clone(),
                    attempt: "looking for it",
                    source,
                });
            }
        };
        let request = PublishVolume {
            volume: id,
            handle: Some(view.handle),
            node: self.node.clone(),
            read_only: false,
            generation: None,
        };
        let publication =
            self.provider
                .publish_volume(request)
                .await
                .map_err(|source| VolumeError::Provider {
                    volume: volume.clone(),
                    attempt: "publishing it",
                    source,
                })?;
        state::fault_point!("node/volume/published");
        self.exports
            .ensure(&publication)
            .await
            .map_err(|source| VolumeError::Export {
                volume: volume.clone(),
                attempt: "starting",
                source,
            })?;
        Ok(Some(Published {
            socket: publication.export.socket().to_owned(),
        }))
    }

    /// Stops a volume's export and ends its publication. Already gone is success.
    ///
    /// # Errors
    /// The export lives, or the provider could not seal.
    pub async fn release(&self, volume: &VolumeId) -> Result<(), VolumeError> {
        let id = provider_id(volume)?;
        let view = match self.provider.fetch_volume(&id, None).await {
            Ok(view) => view,
            Err(ProviderError::NotFound(_)) => return Ok(()),
            Err(source) => {
                return Err(VolumeError::Provider {
                    volume: volume.clone(),
                    attempt: "looking for it",
                    source,
                });
            }
        };
        let exporting = |attempt| {
            move |source| VolumeError::Export {
                volume: volume.clone(),
                attempt,
                source,
            }
        };
        self.exports
            .stop(view.handle, limits::EXPORT_DRAIN)
            .await
            .map_err(exporting("stopping"))?;
        state::fault_point!("node/volume/export-stopped");
        self.provider
            .unpublish_volume(&id, Some(view.handle), &self.node)
            .await
            .map_err(|source| VolumeError::Provider {
                volume: volume.clone(),
                attempt: "unpublishing it",
                source,
            })?;
        self.exports
            .remove(view.handle)
            .await
            .map_err(exporting("removing"))
    }
}

fn provider_id(volume: &VolumeId) -> Result<ProviderVolume, VolumeError> {
    ProviderVolume::new(volume.as_str()).map_err(|source| VolumeError::Name {
        volume: volume.clone(),
        source,
    })
}

/// Definite refusals become a state; anything else is asked again.
fn definite(
    volume: &VolumeId,
    attempt: &'static str,
    error: ProviderError,
) -> Result<VolumeState, VolumeError> {
    let failure = match &error {
        ProviderError::NoSpace { .. } => VolumeFailure::NoSpace,
        ProviderError::NotFound(_) => VolumeFailure::SourceMissing,
        ProviderError::InvalidArgument { .. }
        | ProviderError::AlreadyExists(_)
        | ProviderError::UnsupportedCapability(_) => VolumeFailure::Provider,
        ProviderError::VolumeInUse(_)
        | ProviderError::NotPublished(_)
        | ProviderError::Fenced { .. }
        | ProviderError::Unreadable { .. }
        | ProviderError::ListUnreadable { .. }
        | ProviderError::Unavailable { .. }
        | ProviderError::Internal { .. } => {
            return Err(VolumeError::Provider {
                volume: volume.clone(),
                attempt,
                source: error,
            });
        }
    };
    Ok(VolumeState::Error {
        failure,
        message: chain(&error),
    })
}
