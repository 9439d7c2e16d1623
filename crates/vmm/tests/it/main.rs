//! `vmm` with a real QEMU and no operating system: processes, identities, monitors. What needs a guest that boots
//! (power-off, panic, reset) is in `machine-image`'s integration tests, where there is one.

mod bench;
mod lifecycle;
