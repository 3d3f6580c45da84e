package consume

import "time"

// shorten lets tests see pauses of minutes end. Requests for messages are so short that many end while messages are on their
// way.
func shorten() {
	checkEvery, pauseAfter, ackWait, effectWithin = 50*time.Millisecond, 10*time.Millisecond, 5*time.Second, 4*time.Second
	requestsEvery = 50 * time.Millisecond
	for i := range pauses {
		pauses[i] = time.Duration(i+1) * 5 * time.Millisecond
	}
}

// Statements are all statements of the package, for the test of the schema.
var Statements = map[string]string{
	"markEvent": markEvent, "markLetter": markLetter, "countFailure": countFailure, "insertState": insertState, "putState": putState, "selectStates": selectStates,
	"deleteStates": deleteStates, "lockRetry": lockRetry, "lockReplay": lockReplay, "moveReplay": moveReplay, "selectReplayed": selectReplayed,
	"selectReplayedByID": selectReplayedByID, "endReplays": endReplays,
	"selectLetters": selectLetters, "selectLetter": selectLetter, "selectChosen": selectChosen, "requestRetries": requestRetries,
	"discardLetters": discardLetters, "selectConsumer": selectConsumer, "insertReplay": insertReplay, "deleteHeads": deleteHeads, "deleteLetters": deleteLetters, "deleteReplays": deleteReplays,
}

func init() { shorten() } //nolint:gochecknoinits // before any test
