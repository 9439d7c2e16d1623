//! Images that really boot, driven through `vmm`: what the engine's own tests cannot show without an operating
//! system (power-off, reset, panic, disk errors) and what the image promises (address, keys, user data, web, SSH).
//! Needs root and the packages that the builders name.

mod accelerator;
mod debian;
mod guests;
mod networked;
mod power;
mod tiny;
