package protocol

import "slices"

// Type is the type of a task. The agent has one handler for each type, in agent/task.
type Type string

// The types of tasks.
const (
	ProvisionUser Type = "allocation.provision_user"
	RevokeUser    Type = "allocation.revoke_user"
	RotateKeys    Type = "allocation.rotate_keys"
	Probe         Type = "node.probe"
	HealthCheck   Type = "node.health_check"
	GPUReset      Type = "node.gpu_reset"
	AgentUpdate   Type = "node.agent_update"
)

// Capability is the version of the node protocol that this build speaks. The table of task types has the
// capability of each type. Besides types:
//
//	1  enrolment, mailbox, reports
//	2  limits, certificate authorities and principals of a login; signed proofs and trust statements
//	3  streams to the logins of allocations (RelayOpen)
//	4  the source and the forwarding of logins (AccessCapability)
//	5  mounts of stored objects (MountCapability)
const Capability = 5

// AccessCapability is the lowest capability of an agent that applies the rules for logins: LoginFrom and Forwarding. An
// older agent rejects tasks with them.
const AccessCapability = 4

// taskTypes is the table of task types. The server and the agent read the properties of a type here and
// do not switch over types, so that a new type is a new row. A test compares the table with the handlers
// of the agent.
var taskTypes = []TaskType{
	{Type: ProvisionUser, Scope: ScopeAllocation, Effect: Provisions, Capability: 1, decode: decode[ProvisionUserParams]},
	{Type: RevokeUser, Scope: ScopeAllocation, Effect: Releases, Capability: 1, decode: decode[RevokeUserParams]},
	{Type: RotateKeys, Scope: ScopeAllocation, Effect: Amends, Capability: 2, decode: decode[RotateKeysParams]},
	{Type: Probe, Scope: ScopeNode, ReadOnly: true, Capability: 1, decode: decode[ProbeParams]},
	{Type: HealthCheck, Scope: ScopeNode, ReadOnly: true, Capability: 2, decode: decode[HealthCheckParams]},
	{Type: GPUReset, Scope: ScopeNode, Capability: 2, decode: decode[GPUResetParams]},
	{Type: AgentUpdate, Scope: ScopeNode, Capability: 2, decode: decode[AgentUpdateParams]},
}

// TaskType is a row of the table: the properties that all tasks of a type share.
type TaskType struct {
	Type   Type
	Scope  Scope
	Effect Effect
	// ReadOnly types change nothing. Their tasks need no fence and are not in the journal.
	ReadOnly bool
	// Capability is the lowest capability of an agent that runs the type.
	Capability int

	decode func(Envelope) (params, error)
}

// Scope selects the fence of a task: the fence of its allocation or the fence of the node.
type Scope string

// The scopes.
const (
	ScopeAllocation Scope = "allocation"
	ScopeNode       Scope = "node"
)

// Effect describes what a task that succeeded leaves of its allocation on the node.
type Effect int

// The effects. Tasks with the scope of a node have none.
const (
	NoEffect   Effect = iota
	Provisions        // everything that the task requires is in place
	Amends            // a part of an earlier provisioning is replaced
	Releases          // nothing of the allocation is left, and a proof shows it
)

// TaskTypes returns the table.
func TaskTypes() []TaskType { return slices.Clone(taskTypes) }

// row returns the row of a type. An unknown type has no scope and no effect.
func (t Type) row() (row TaskType, exists bool) {
	i := slices.IndexFunc(taskTypes, func(row TaskType) bool { return row.Type == t })
	if i < 0 {
		return TaskType{}, false
	}
	return taskTypes[i], true
}

// Scope returns the scope of the type.
func (t Type) Scope() Scope {
	row, _ := t.row()
	return row.Scope
}

// Effect returns the effect of the type.
func (t Type) Effect() Effect {
	row, _ := t.row()
	return row.Effect
}

// Capability returns the lowest capability of an agent that runs the type. A job compares
// it with the capability that the node has reported before it queues a task.
func (t Type) Capability() int {
	row, _ := t.row()
	return row.Capability
}

// ReadOnly reports whether tasks of the type change nothing.
func (t Type) ReadOnly() bool {
	row, _ := t.row()
	return row.ReadOnly
}

// params are the parameters of one task type. check compares them with the envelope that contains them.
type params interface {
	check(e Envelope) error
}

// ParamsOf decodes and checks the parameters of a task. P is the parameter type of the type of the task.
func ParamsOf[P params](e Envelope) (P, error) {
	var p P
	if err := exact(e.Params, &p); err != nil {
		return p, err
	}
	return p, p.check(e)
}

func decode[P params](e Envelope) (params, error) { return ParamsOf[P](e) }

// ProvisionUserParams request an account of one tenant on the node, with access to exactly the GPUs of
// the slots.
type ProvisionUserParams struct {
	User       string   `json:"user"`        // ^[a-z][a-z0-9-]{0,30}$
	UID        int      `json:"uid"`         // 200000 and above, not reused for 30 days
	PublicKeys []string `json:"public_keys"` // authorized_keys lines without options
	GPUs       []string `json:"gpus"`        // GPU UUIDs, equal to the envelope's slots

	// Limits of the tenant's slice. Zero means a fair share of the node.
	Limits Limits `json:"limits,omitzero"`
	// UserCA are the SSH authorities whose certificates log in as Principal.
	UserCA []string `json:"user_ca,omitempty"`
	// Principal is the name that a certificate must contain: the id of the allocation.
	Principal string `json:"principal,omitempty"`
	// Revoked serials of certificates, ascending.
	Revoked []uint64 `json:"revoked,omitempty"`
	// StopAfterHours limits how long the node works without the control plane. Then the agent ends the
	// tenant's sessions and logins. With 0 they stay.
	StopAfterHours int `json:"stop_after_hours,omitempty"`
	// Storage is absent without mounts.
	Storage *Storage `json:"storage,omitempty"`

	Access
}

// Access are the rules for the logins of an allocation. The zero value is what an agent without AccessCapability does:
// logins from all addresses, and no forwarding.
type Access struct {
	LoginFrom  string `json:"login_from,omitempty"` // FromLoopback or empty
	Forwarding string `json:"forwarding,omitempty"` // ForwardLocal or empty
}

const (
	// FromLoopback allows logins only from the node itself, as those through the agent are.
	FromLoopback = "loopback"
	// ForwardLocal allows connections of the client to TCP ports and sockets that the account reaches.
	ForwardLocal = "local"
)

func (a Access) check() error {
	if a.LoginFrom != "" && a.LoginFrom != FromLoopback {
		return Reject(ParamsInvalid, "login_from %q is not %s", a.LoginFrom, FromLoopback)
	}
	if a.Forwarding != "" && a.Forwarding != ForwardLocal {
		return Reject(ParamsInvalid, "forwarding %q is not %s", a.Forwarding, ForwardLocal)
	}
	return nil
}

// Limits are the share of the node that a tenant gets. A zero field is the default of the node.
type Limits struct {
	CPUWeight int   `json:"cpu_weight,omitempty"` // 1 to 10000, as of systemd
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	Tasks     int64 `json:"tasks,omitempty"`
	HomeGiB   int64 `json:"home_gib,omitempty"`
}

func (p ProvisionUserParams) check(e Envelope) error {
	switch {
	case p.Principal != "" && p.Principal != e.Allocation.String():
		return Reject(ParamsInvalid, "principal %q is not the allocation", p.Principal)
	case len(p.UserCA) > 0 && p.Principal == "":
		return Reject(ParamsInvalid, "an authority without a principal would accept all of its certificates")
	case p.StopAfterHours < 0:
		return Reject(ParamsInvalid, "stop_after_hours is negative")
	}
	if err := p.Limits.check(); err != nil {
		return err
	}
	if err := p.Storage.check(); err != nil {
		return err
	}
	return p.allocationParams(e).check(e)
}

func (p ProvisionUserParams) allocationParams(Envelope) AllocationParams {
	return AllocationParams{
		User: p.User, UID: p.UID, PublicKeys: p.PublicKeys, GPUs: p.GPUs, Limits: p.Limits,
		UserCA: p.UserCA, Principal: p.Principal, Revoked: p.Revoked, StopAfterHours: p.StopAfterHours, Storage: p.Storage, Access: p.Access,
	}
}

// RotateKeysParams replace the keys, the authorities and the rules of a login, and nothing else.
type RotateKeysParams struct {
	User       string   `json:"user"`
	UID        int      `json:"uid"`
	PublicKeys []string `json:"public_keys"`
	GPUs       []string `json:"gpus"` // equal to the envelope's slots
	UserCA     []string `json:"user_ca,omitempty"`
	Revoked    []uint64 `json:"revoked,omitempty"`

	Access
}

func (p RotateKeysParams) check(e Envelope) error { return p.allocationParams(e).check(e) }

func (p RotateKeysParams) allocationParams(e Envelope) AllocationParams {
	return AllocationParams{
		User: p.User, UID: p.UID, PublicKeys: p.PublicKeys, GPUs: p.GPUs,
		UserCA: p.UserCA, Principal: e.Allocation.String(), Revoked: p.Revoked, Access: p.Access,
	}
}

func (p RotateKeysParams) amend(base *ProvisionUserParams) {
	base.PublicKeys, base.UserCA, base.Revoked, base.Access = p.PublicKeys, p.UserCA, p.Revoked, p.Access
}

// RevokeUserParams request the removal of an account and of everything that the tenant left.
type RevokeUserParams struct {
	User string   `json:"user"`
	UID  int      `json:"uid"`
	GPUs []string `json:"gpus"`
	Mode string   `json:"mode"` // clear | purge
}

func (p RevokeUserParams) check(e Envelope) error {
	if p.Mode != "clear" && p.Mode != "purge" {
		return Reject(ParamsInvalid, "mode %q is neither clear nor purge", p.Mode)
	}
	return p.allocationParams(e).check(e)
}

func (p RevokeUserParams) allocationParams(Envelope) AllocationParams {
	return AllocationParams{User: p.User, UID: p.UID, GPUs: p.GPUs, Purge: p.Mode == "purge"}
}

// ProbeParams request a complete report now.
type ProbeParams struct{}

func (ProbeParams) check(Envelope) error { return nil }

// HealthCheckParams request a check of the whole node. A Report follows the result.
type HealthCheckParams struct {
	Level int `json:"level"` // 0 passive, 1 quick, 2 medium, 3 long and only when idle
}

// maxLevel is the highest level of a health check.
const maxLevel = 3

func (p HealthCheckParams) check(Envelope) error {
	if p.Level < 0 || p.Level > maxLevel {
		return Reject(ParamsInvalid, "level %d is not 0 to %d", p.Level, maxLevel)
	}
	return nil
}

// GPUResetParams request the reset of one device.
type GPUResetParams struct {
	GPU        string `json:"gpu"`
	ExpectIdle bool   `json:"expect_idle"` // reject the task while a process uses the device
}

func (p GPUResetParams) check(Envelope) error {
	if !gpuUUID.MatchString(p.GPU) {
		return Reject(ParamsInvalid, "%q is no UUID of a GPU", p.GPU)
	}
	return nil
}

// AgentUpdateParams request the replacement of the agent by another build. A release key has signed
// Metadata; the handler verifies the signature.
type AgentUpdateParams struct {
	Version   string `json:"version"`
	Digest    string `json:"digest"` // hex SHA-256 of the binary
	Size      int64  `json:"size"`
	Metadata  []byte `json:"metadata"`  // canonical bytes that a release key signed
	Signature []byte `json:"signature"` // Ed25519 over Metadata
}

func (p AgentUpdateParams) check(Envelope) error {
	switch {
	case !build.MatchString(p.Version):
		return Reject(ParamsInvalid, "%q is no version", p.Version)
	case !digest.MatchString(p.Digest):
		return Reject(ParamsInvalid, "the digest is no SHA-256 in hex")
	case p.Size <= 0 || p.Size > MaxBinary:
		return Reject(ParamsInvalid, "a binary of %d bytes, at most %d", p.Size, MaxBinary)
	}
	return nil
}

// Applied returns the parameters of a provisioning as an amending task of the same allocation has changed
// them. amendment is nil if no task did.
func Applied(provisioning Envelope, amendment *Envelope) (ProvisionUserParams, error) {
	p, err := ParamsOf[ProvisionUserParams](provisioning)
	if err != nil || amendment == nil {
		return p, err
	}
	row, exists := amendment.Type.row()
	if !exists || row.Effect != Amends {
		return p, Reject(ParamsInvalid, "a task of type %q amends no provisioning", amendment.Type)
	}
	changes, err := row.decode(*amendment)
	if err != nil {
		return p, err
	}
	if amending, ok := changes.(interface {
		amend(base *ProvisionUserParams)
	}); ok {
		amending.amend(&p)
	}
	return p, nil
}
