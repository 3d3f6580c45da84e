package s3_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// Random ids of keys reach the database only within the limit of their address, and each of them once in a minute. Keys that were
// found lately do not need the limit.
func TestUnknownKeysAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	f := setup(t)
	random := func(last string) accesskey.Key {
		k := f.owner
		k.AccessKeyID = "GPUAABCDEFGHIJKLMNO" + last
		return k
	}
	get := func(k accesskey.Key) got { return f.send(k, "GET", "/default?list-type=2", "", nil) }
	fresh := f.key(f.in(f.Owner), accesskey.NewKey{Name: "fresh"})
	f.want("a key", get(f.owner), 200, "")
	f.want("an unknown key", get(random("A")), 403, "InvalidAccessKeyId")
	f.unknown.Store(int64(time.Second))
	f.want("a key that was found", get(f.owner), 200, "")
	f.want("a wrong secret", get(accesskey.Key{AccessKeyID: f.owner.AccessKeyID, Secret: "x"}), 503, "SlowDown")
	f.want("a key that was not used yet", get(fresh), 503, "SlowDown")
	// Without the table a query would be an internal error.
	f.Exec(t, `ALTER TABLE storage_access_keys RENAME TO no_keys`)
	f.want("an unknown key over the limit", get(random("B")), 503, "SlowDown")
	f.unknown.Store(0)
	f.want("an unknown key once more", get(random("A")), 403, "InvalidAccessKeyId")
	f.want("another unknown key", get(random("C")), 500, "InternalError")
}
