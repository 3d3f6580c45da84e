package matrix_test

import (
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// recordingKey returns the sealed key of a recording without output, as a server of the role terminal seals it.
func (w *fixture) recordingKey(id uuid.UUID) []byte {
	w.Helper()
	drivers, err := keystore.ConfigFromEnv(func(string) string { return "" })
	if err != nil {
		w.Fatal(err)
	}
	keys, err := keystore.OpenAll(w.Context(), drivers, w.state, w.db, clock.Clock{})
	if err != nil {
		w.Fatal(err)
	}
	return keys.Recordings.Seal(envelope.NewKey(), envelope.Place{Table: "terminal_recordings", Column: "key_enc", Row: id.String()})
}
