//! Records in, messages out: what kubelet's client validates is always there.
