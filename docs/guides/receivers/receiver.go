//go:build ignore

// A receiver of webhooks: go run receiver.go, with the secret in WEBHOOK_SECRET.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const tolerance = 5 * time.Minute

// verify reports whether the request has a signature of the secret, and is not old.
func verify(secret string, h http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	sent, timeErr := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || timeErr != nil || time.Since(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), sent, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(h.Get("webhook-signature")) { // two while the secret rotates
		if hmac.Equal([]byte(got), []byte(want)) {
			return true
		}
	}
	return false
}

func main() {
	var processed sync.Map // a real receiver stores the ids with its effect
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
		if err != nil || !verify(os.Getenv("WEBHOOK_SECRET"), r.Header, body) {
			http.Error(w, "the signature is wrong", http.StatusUnauthorized)
			return
		}
		if _, repeated := processed.LoadOrStore(r.Header.Get("webhook-id"), true); !repeated {
			fmt.Printf("%s\n", body)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
