package agentrelease

const (
	// KeysDir of the state directory holds the keys that sign builds of the
	// agent. They sign nothing else, and no other key signs builds.
	KeysDir = "release-keys"
	// BuildsDir of the state directory holds the builds, by digest.
	BuildsDir = "agents"
)
