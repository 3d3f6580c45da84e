package desired

import "time"

// The specs below mirror cue/schema, which is the contract: a test validates
// each of them against its definition. Field names are lowerCamelCase, as in
// the documents that people write.

// Environment is the profile of one place.
type Environment struct {
	DisplayName string   `json:"displayName"`
	Vendor      string   `json:"vendor"`  // first part of resource names
	Service     string   `json:"service"` // second part
	Region      string   `json:"region"`
	TrustDomain string   `json:"trustDomain"` // of node certificates
	Development bool     `json:"development"` // development sign-in and simulated nodes are allowed
	SignIn      SignIn   `json:"signIn"`
	Payments    Payments `json:"payments"`
	// Sources are repositories that are followed beside the one the server was
	// started with.
	Sources []GitSource `json:"sources"`
	// TestCreditMinor is what the development tenant starts with.
	TestCreditMinor int64 `json:"testCreditMinor"`
}

// GitSource is one repository that declarations are read from.
type GitSource struct {
	Name        string    `json:"name"`        // unique among the sources
	Repository  string    `json:"repository"`  // https, ssh or file URL, without a password
	Ref         string    `json:"ref"`         // the tracked branch
	Dirs        []string  `json:"dirs"`        // folders that hold declarations
	Environment string    `json:"environment"` // the profile that follows it; empty: whichever declares it
	Forge       *Forge    `json:"forge,omitempty"`
	Auth        *GitAuth  `json:"auth,omitempty"`
	Verify      GitVerify `json:"verify"`
}

// Forge is where a source's changes are reviewed.
type Forge struct {
	Kind             string `json:"kind"`    // github | gitlab | gitea
	URL              string `json:"url"`     // of its API
	Project          string `json:"project"` // owner/name
	TokenRef         string `json:"tokenRef,omitempty"`
	WebhookSecretRef string `json:"webhookSecretRef,omitempty"`
}

// GitAuth refers to what a source is read with.
type GitAuth struct {
	TokenRef      string `json:"tokenRef,omitempty"`
	SSHKeyRef     string `json:"sshKeyRef,omitempty"`
	KnownHostsRef string `json:"knownHostsRef,omitempty"`
}

// GitVerify says whose signatures a commit needs.
type GitVerify struct {
	Required bool     `json:"required"`
	OpenPGP  []string `json:"openPGP"` // armoured public keys
	SSH      []string `json:"ssh"`     // lines of allowed_signers
}

// SignIn names the OpenID provider that people sign in with.
type SignIn struct {
	Issuer      string `json:"issuer"`      // empty: the server's environment names it, or there is none
	ClientID    string `json:"clientId"`    // of the server
	CLIClientID string `json:"cliClientId"` // of programs on people's machines
	Audience    string `json:"audience"`    // what an access token must be for
	RolesClaim  string `json:"rolesClaim"`  // dotted path to a list of roles
	// Roles maps the provider's roles to admin, operator and billing_operator; with
	// none the provider decides no role.
	Roles map[string]string `json:"roles"`
}

// Payments says who takes money.
type Payments struct {
	Provider string `json:"provider"` // none | stripe
	Livemode bool   `json:"livemode"` // real money; the keys must be of this mode
}

// Policy sets one key at one scope.
type Policy struct {
	Key   string `json:"key"`
	Scope string `json:"scope"` // platform | tenant:<name> | project:<name>
	Value any    `json:"value"` // bool, integer or string, as the key's definition says
}

// Role lists the operations that a role may call.
type Role struct {
	Description string   `json:"description"`
	Operations  []string `json:"operations"` // operationIds, or "*"
}

// SKU is what is sold: GPUs of one model, by the hour.
type SKU struct {
	DisplayName string `json:"displayName"`
	GPUModel    string `json:"gpuModel"` // as the driver names it
	MemoryGiB   int    `json:"memoryGiB"`
	Isolation   string `json:"isolation"` // host_user | slice_vm | full_reimage
	MaxGPUs     int    `json:"maxGPUs"`   // of one allocation
	Active      bool   `json:"active"`
	Price       Price  `json:"price"`
}

// Price is per GPU and hour.
type Price struct {
	Currency    string `json:"currency"`
	AmountMinor int64  `json:"amountMinor"`
}

// OSImage is a system image by digest.
type OSImage struct {
	DisplayName string `json:"displayName"`
	Digest      string `json:"digest"` // sha256:<hex>
	Default     bool   `json:"default"`
}

// Node is one machine of the fleet.
type Node struct {
	SKU        string `json:"sku"`
	Region     string `json:"region"`
	Onboarding string `json:"onboarding"` // manual | maas | simulated
	GPUs       int    `json:"gpus"`       // how many the machine must show
	// Serials are the GPUs that it must show, where somebody answers for which.
	Serials  []string `json:"serials,omitempty"`
	Slicing  string   `json:"slicing"`  // whole_gpu
	Hardware string   `json:"hardware"` // profile of a simulated node: h100-8, a100-8, l40s-4, t4-4
	Cordoned bool     `json:"cordoned"` // place nothing new
	// Address is where the machine's SSH service is reached, host or host:port; empty:
	// its name.
	Address string `json:"address,omitempty"`
}

// Allocation is a promise of slots to a project. Its writer is always the
// allocation room; Released turns it into a tombstone that stays until the host
// has proved it gone.
type Allocation struct {
	Tenant   string   `json:"tenant"`
	Project  string   `json:"project"`
	User     string   `json:"user"`
	SKU      string   `json:"sku"`
	GPUs     int      `json:"gpus"`
	Node     string   `json:"node"`     // node id; placement is immutable once made
	Slots    []string `json:"slots"`    // slot ids
	GPUUUIDs []string `json:"gpuUUIDs"` // devices of the slots, sorted
	Login    string   `json:"login"`    // account on the host
	UID      int      `json:"uid"`
	Keys     []string `json:"keys"` // public keys that may log in
	// FollowKeys: the keys are all that the user has registered, also later.
	// Otherwise they were named, or it was declared before this was kept.
	FollowKeys bool       `json:"followKeys,omitempty"`
	Released   bool       `json:"released"`
	Reason     string     `json:"reason,omitempty"`   // why released
	ExpireAt   *time.Time `json:"expireAt,omitempty"` // lease end
}
