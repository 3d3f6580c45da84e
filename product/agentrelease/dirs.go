package agentrelease

const (
	// KeysDir is the folder of the state directory with the keys that sign builds of the agent. They
	// sign nothing else, and no other key signs builds.
	KeysDir = "release-keys"
	// BuildsDir is the folder of the state directory with the builds, by digest.
	BuildsDir = "agents"
)
