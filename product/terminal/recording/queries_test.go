package recording

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"terminal_recordings", "terminal_recording_chunks", "terminal_sessions"}, map[string]string{
		"insertRecording": insertRecording, "insertChunk": insertChunk, "extendRecording": extendRecording, "endRecording": endRecording, "selectRecording": selectRecording,
		"selectRecordings": selectRecordings, "selectChunk": selectChunk, "selectOldKeys": selectOldKeys, "resealKey": resealKey, "countOldKeys": countOldKeys,
		"deleteRecordings": deleteRecordings, "deleteChunks": deleteChunks,
	})
}

// A character is not torn by two writes, and bytes that are no UTF-8 do not wait for ever.
func TestTornCharacters(t *testing.T) {
	t.Parallel()
	const all = "a€🙂\xff\xe2\x82"
	for cut := range len(all) {
		var of text
		of.output(0, []byte(all[:cut]))
		of.output(time.Second, []byte(all[cut:]))
		lines := string(of.flush(true, time.Second))
		if strings.Count(lines, `\ufffd`) != 2 && strings.Count(lines, `\ufffd`) != 3 || !strings.Contains(lines, "€") || !strings.Contains(lines, "🙂") {
			t.Errorf("cut at %d: %s", cut, lines)
		}
	}
}
