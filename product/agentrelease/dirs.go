package agentrelease

const (
	// BuildsDir is the folder of the state directory with the builds, by digest.
	BuildsDir = "agents"
	// StatementSuffix is added to the path of a build for the file with its signed release.
	StatementSuffix = ".release"
)
