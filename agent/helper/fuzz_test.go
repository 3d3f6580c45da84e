package helper

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzFrame: the network process sends frames to root, also after an attack on it.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x16{\"id\":1,\"call\":\"hello\"}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(sent)
			_ = theirs.Close()
		}()
		text, err := readFrame(ours, maxRequest, time.Second)
		_ = ours.Close()
		if err == nil && (len(text) == 0 || len(text) > maxRequest || len(text)+4 > len(sent)) {
			t.Errorf("%d bytes of %d", len(text), len(sent))
		}
		var r request
		_ = json.Unmarshal(text, &r)
	})
}

// FuzzTrustState: a damaged file of keys is no file of keys.
func FuzzTrustState(f *testing.F) {
	f.Add([]byte(`{"node_id":"01990f3e-0000-7000-8000-000000000001","task_keys":{"0001":"AAAA"}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, trustFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := LoadTrustState(dir); err == nil && len(b.TaskKeys) == 0 {
			t.Errorf("%q: %+v", text, b)
		}
	})
}
