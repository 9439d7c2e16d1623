//! What can go wrong here, by what was attempted.

/// A failure of this engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VnetError {
    /// Not built yet.
    #[error("not built")]
    Unbuilt,
    /// The tap is attached already, by a guest that still runs.
    #[error("the tap of the port is in use")]
    TapBusy,
}
