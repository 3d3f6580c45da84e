package protocol

// ProvisionUserParams asks for one tenant's account on the host, with access to
// exactly the slots' GPUs.
type ProvisionUserParams struct {
	User       string   `json:"user"`        // ^[a-z][a-z0-9-]{0,30}$
	UID        int      `json:"uid"`         // 200000 and above, not reused for 30 days
	PublicKeys []string `json:"public_keys"` // authorized_keys lines without options
	GPUs       []string `json:"gpus"`        // GPU UUIDs, equal to the envelope's slots

	// Limits of the tenant's slice; zero is the host's fair share.
	Limits Limits `json:"limits,omitzero"`
	// UserCA are the SSH authorities whose certificates log in as Principal.
	UserCA []string `json:"user_ca,omitempty"`
	// Principal that a certificate must name: the id of the allocation.
	Principal string `json:"principal,omitempty"`
	// Revoked serials of certificates, rising.
	Revoked []uint64 `json:"revoked,omitempty"`
	// StopAfterHours is how long the node may hear nothing of the control plane
	// before it ends the tenant's sessions and logins; 0 keeps them for ever.
	StopAfterHours int `json:"stop_after_hours,omitempty"`
}

// Limits of what a tenant takes of the host. Zero of each is the host's own.
type Limits struct {
	CPUWeight int   `json:"cpu_weight,omitempty"` // 1 to 10000, as of systemd
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	Tasks     int64 `json:"tasks,omitempty"`
	HomeGiB   int64 `json:"home_gib,omitempty"`
}

// RotateKeysParams replaces who may log in, and nothing else.
type RotateKeysParams struct {
	User       string   `json:"user"`
	UID        int      `json:"uid"`
	PublicKeys []string `json:"public_keys"`
	GPUs       []string `json:"gpus"` // equal to the envelope's slots
	UserCA     []string `json:"user_ca,omitempty"`
	Revoked    []uint64 `json:"revoked,omitempty"`
}

// RevokeUserParams asks for the account and all it left to be gone.
type RevokeUserParams struct {
	User string   `json:"user"`
	UID  int      `json:"uid"`
	GPUs []string `json:"gpus"`
	Mode string   `json:"mode"` // clear | purge
}

// ProbeParams asks for a complete report now.
type ProbeParams struct{}

// HealthCheckParams asks for a check of the whole node.
type HealthCheckParams struct {
	Level int `json:"level"` // 0 passive, 1 quick, 2 medium, 3 long and only when idle
}

// GPUResetParams asks for one device to be reset.
type GPUResetParams struct {
	GPU        string `json:"gpu"`
	ExpectIdle bool   `json:"expect_idle"` // refuse when anything uses it
}

// AgentUpdateParams asks for the agent to become another build of itself.
type AgentUpdateParams struct {
	Version   string `json:"version"`
	Digest    string `json:"digest"` // hex SHA-256 of the binary
	Size      int64  `json:"size"`
	Metadata  []byte `json:"metadata"`  // canonical bytes that a release key signed
	Signature []byte `json:"signature"` // Ed25519 over Metadata
}
