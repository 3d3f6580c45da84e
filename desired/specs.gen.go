// Code generated from cue/schema by desired/validate/gen. DO NOT EDIT.

package desired

import "time"

// Environment is the profile of one installation.
type Environment struct {
	DisplayName string `json:"displayName"`
	// The first two parts of every resource name.
	Vendor  string `json:"vendor"`
	Service string `json:"service"`
	Region  string `json:"region"`
	// The trust domain of node certificates.
	TrustDomain string `json:"trustDomain"`
	// Development sign-in and simulated nodes are allowed.
	Development bool `json:"development"`
	// SignIn names the OpenID provider that users sign in with. Without an issuer the environment
	// of the server may name one. Without any, sign-in through a provider is off.
	SignIn SignIn `json:"signIn"`
	// Payments names the payment provider. Its keys are in the environment of the server and must have this mode.
	Payments Payments `json:"payments"`
	// Mail names the server that sends e-mails. Without one they are logged. TLS is required, except on loopback.
	Mail Mail `json:"mail"`
	// Storage names the object store, which contains the bytes of the stored objects of all projects. The driver files
	// is a folder of the computer of the server. The driver s3 is a bucket of any S3 provider.
	Storage Storage `json:"storage"`
	// Git sources in addition to the one that the server was started with. Their names are unique.
	Sources []GitSource `json:"sources"`
	// The first credit of the development tenant.
	TestCreditMinor int64 `json:"testCreditMinor"`
}

// Policy sets one policy key at one scope. policies/keys.cue defines the keys, their types, bounds and scopes.
type Policy struct {
	Key   string `json:"key"`
	Scope string `json:"scope"`
	Value any    `json:"value"`
}

// Role lists the operations that a role may call.
type Role struct {
	Description string   `json:"description"`
	Operations  []string `json:"operations"`
}

// SKU is an offer of GPUs of one model, by the hour.
type SKU struct {
	DisplayName string `json:"displayName"`
	// The name that the driver reports: nvidia-smi --query-gpu=name.
	GPUModel  string `json:"gpuModel"`
	MemoryGiB int    `json:"memoryGiB"`
	Isolation string `json:"isolation"`
	// The most GPUs of one allocation.
	MaxGPUs int   `json:"maxGPUs"`
	Active  bool  `json:"active"`
	Price   Price `json:"price"`
}

// OSImage is a system image, named by digest because a tag could change.
type OSImage struct {
	DisplayName string `json:"displayName"`
	Digest      string `json:"digest"`
	// At most one image of a revision is the default.
	Default bool `json:"default"`
}

// StorageClass is an offer to store the files of projects.
type StorageClass struct {
	DisplayName string `json:"displayName"`
	// Of one GiB for 720 hours.
	Price Price `json:"price"`
	// GiB of each project that cost nothing.
	FreeGiB int `json:"freeGiB"`
	// Days from an empty balance to the deletion of the files, unless storage.grace_days is longer.
	RetentionDays int `json:"retentionDays"`
	// Exactly one storage class is the default. It applies to all projects.
	Default bool `json:"default"`
}

// Node is one managed computer of the fleet.
type Node struct {
	// The SKU of its GPUs.
	SKU string `json:"sku"`
	// The region of the node.
	Region string `json:"region"`
	// The way in which the computer becomes a node: an operator installs the agent, MAAS installs the computer, or the
	// server simulates it.
	Onboarding string `json:"onboarding"`
	// The number of GPUs that the node must report.
	GPUs int `json:"gpus"`
	// The serial numbers of the GPUs that the node must report. Other GPUs are drift. Without them any GPUs are accepted.
	Serials []string `json:"serials,omitempty"`
	// The zone of the node.
	Zone string `json:"zone,omitempty"`
	// The rack of the node. Nodes of one rack fail together.
	Rack string `json:"rack,omitempty"`
	// The address of the management controller of the node, a host or host:port. It stays the same over its lifecycle.
	ManagementAddress string `json:"managementAddress,omitempty"`
	// The part of a GPU that one slot is.
	Slicing string `json:"slicing"`
	// No new allocation is placed on the node.
	Cordoned bool `json:"cordoned"`
	// The address of its SSH service, a host or host:port. The default is the name of the node.
	Address string `json:"address,omitempty"`
	// The profile of a simulated node: h100-8, a100-8, l40s-4 or t4-4. Any other node reports its own hardware.
	Hardware string `json:"hardware"`
}

// Allocation is the right of a project to slots for a time. Only product/allocation writes it; files cannot contain
// one. A released one is a tombstone until the node proves the cleanup.
type Allocation struct {
	Tenant   string   `json:"tenant"`
	Project  string   `json:"project"`
	User     string   `json:"user"`
	SKU      string   `json:"sku"`
	GPUs     int      `json:"gpus"`
	Node     string   `json:"node"`
	Slots    []string `json:"slots"`
	GPUUUIDs []string `json:"gpuUUIDs"`
	Login    string   `json:"login"`
	// Below 1000 are accounts of the system; above 2^31 some tools wrap.
	UID  int      `json:"uid"`
	Keys []string `json:"keys"`
	// The keys are all keys of the user, later ones included.
	FollowKeys bool `json:"followKeys,omitempty"`
	Released   bool `json:"released"`
	// The cause of the release.
	Reason   string     `json:"reason,omitempty"`
	ExpireAt *time.Time `json:"expireAt,omitempty"`
	// Folders of stored objects that the home shows, sorted by mount point.
	Mounts []Mount `json:"mounts,omitempty"`
	// The URL of the S3 endpoint when the allocation was placed. A later one of the profile is for later allocations.
	MountEndpoint string `json:"mountEndpoint,omitempty"`
}

// SignIn names the OpenID provider that users sign in with. Without an issuer the environment
// of the server may name one. Without any, sign-in through a provider is off.
type SignIn struct {
	Issuer      string `json:"issuer"`
	ClientID    string `json:"clientId"`
	CLIClientID string `json:"cliClientId"`
	// The audience that an access token must have.
	Audience string `json:"audience"`
	// The dotted path at which a token lists the roles of its user.
	RolesClaim string `json:"rolesClaim"`
	// Maps roles of the provider to admin, operator and billing_operator. With a mapping, the provider decides
	// the platform role of every user at each sign-in.
	Roles map[string]string `json:"roles"`
	// Issuers of tokens of CI jobs, such as https://token.actions.githubusercontent.com. A credential of a service
	// account names one of them, and the repository and ref whose jobs may use it. Its keys are requested over the
	// network, so http is accepted at 127.0.0.1 and localhost only.
	JobIssuers []string `json:"jobIssuers"`
}

// Payments names the payment provider. Its keys are in the environment of the server and must have this mode.
type Payments struct {
	Provider string `json:"provider"`
	Livemode bool   `json:"livemode"`
}

// Mail names the server that sends e-mails. Without one they are logged. TLS is required, except on loopback.
type Mail struct {
	From string `json:"from"`
	Host string `json:"host"`
	Port int    `json:"port"`
	// A credential with user:password.
	CredentialRef string `json:"credentialRef"`
}

// Storage names the object store, which contains the bytes of the stored objects of all projects. The driver files
// is a folder of the computer of the server. The driver s3 is a bucket of any S3 provider.
type Storage struct {
	Driver string `json:"driver"`
	// The origin of signed URLs, which leads to the same servers. At this host name they serve nothing else, so that a
	// browser has no session there. Empty: the origin of the portal.
	PublicURL string `json:"publicUrl"`
	// The URL at which nodes and S3 tools reach the S3 endpoint. Empty: mounts are not offered, and a new access key does
	// not name the URL.
	S3URL string `json:"s3Url"`
	// The folder of the driver files. Empty: objects in the state directory of the server. Several servers need the
	// same folder.
	Path string `json:"path"`
	// The URL of the S3 service, without bucket and path. http is accepted at 127.0.0.1 and localhost only.
	Endpoint string `json:"endpoint"`
	// The region that signatures name.
	Region string `json:"region"`
	Bucket string `json:"bucket"`
	// The beginning of all keys, without a slash at its end. Nothing outside it is listed, read or written.
	Prefix string `json:"prefix"`
	// The bucket is in the path of a URL and not in its host name. Many servers other than Amazon's need it.
	PathStyle bool `json:"pathStyle"`
	// The encryption of new objects by the provider. With none, the configuration of the bucket decides.
	SSE string `json:"sse"`
	// The key of sse: aws:kms. Empty: the key that the provider has for the bucket.
	KMSKeyID string `json:"kmsKeyId"`
	// The provider verifies a checksum of each body. A few providers reject checksums and need false.
	Checksums bool `json:"checksums"`
	// A credential with ACCESSKEY:SECRETKEY.
	CredentialsRef string `json:"credentialsRef"`
}

// GitSource is one Git repository that desired objects are read from.
type GitSource struct {
	Name string `json:"name"`
	// The URL has no password; auth refers to the credentials.
	Repository string   `json:"repository"`
	Ref        string   `json:"ref"`
	Dirs       []string `json:"dirs"`
	// The environment that syncs it. The default is the one that defines it.
	Environment string `json:"environment"`
	// Forge is the system in which changes of a source are reviewed. It receives statuses and the comment with the plan.
	Forge *Forge `json:"forge,omitempty"`
	// Auth refers to the credentials of the source.
	Auth *GitAuth `json:"auth,omitempty"`
	// Verify defines whose signature a commit needs before it is read.
	Verify GitVerify `json:"verify"`
}

// Price is the price of one GPU for one hour, or of one GiB of files for 720 hours.
type Price struct {
	Currency    string `json:"currency"`
	AmountMinor int64  `json:"amountMinor"`
}

// Mount is a part of a spec.
type Mount struct {
	// Empty: all stored objects of the project.
	Path     string `json:"path"`
	At       string `json:"at"`
	ReadOnly bool   `json:"readOnly"`
}

// Forge is the system in which changes of a source are reviewed. It receives statuses and the comment with the plan.
type Forge struct {
	Kind             string `json:"kind"`
	URL              string `json:"url"`
	Project          string `json:"project"`
	TokenRef         string `json:"tokenRef,omitempty"`
	WebhookSecretRef string `json:"webhookSecretRef,omitempty"`
	// Users maps names at the forge to the e-mail addresses of users. It is for users whose address the forge hides:
	// a user cannot approve a change that they have pushed.
	Users map[string]string `json:"users,omitempty"`
}

// GitAuth refers to the credentials of the source.
type GitAuth struct {
	TokenRef      string `json:"tokenRef,omitempty"`
	SSHKeyRef     string `json:"sshKeyRef,omitempty"`
	KnownHostsRef string `json:"knownHostsRef,omitempty"`
}

// GitVerify defines whose signature a commit needs before it is read.
type GitVerify struct {
	Required bool     `json:"required"`
	OpenPGP  []string `json:"openPGP"`
	SSH      []string `json:"ssh"`
}
