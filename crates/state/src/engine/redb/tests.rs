//! How the engine behaves when its storage fails.
