//! The harness tests itself: a sound reconciler passes under every fault, and unsound ones are caught.

mod harness;
