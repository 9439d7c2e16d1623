//! Engine: hypervisor drivers, QMP, the device plan, the accelerator probe. Knows no AWS word.
