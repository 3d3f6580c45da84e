package s3_test

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

type listResult struct {
	IsTruncated           bool
	NextMarker            string
	NextContinuationToken string
	KeyCount              int
	Contents              []struct{ Key string }
	CommonPrefixes        []struct{ Prefix string }
}

// listPages lists all pages of a size, with the keys in the sequence of their bytes.
func (f *fixture) listPages(version int, prefix, delimiter, after string, size int) (keys []string) {
	f.t.Helper()
	q := url.Values{"prefix": {prefix}, "delimiter": {delimiter}, "max-keys": {fmt.Sprint(size)}, "encoding-type": {"url"}}
	if q.Set("marker", after); version == 2 {
		q.Set("list-type", "2")
		q.Set("start-after", after)
	}
	for {
		g := f.send(f.owner, "GET", "/default?"+strings.ReplaceAll(q.Encode(), "+", "%20"), "", nil)
		var page listResult
		if err := xml.Unmarshal([]byte(g.body), &page); err != nil || g.status != 200 {
			f.t.Fatalf("%v: %d %s", err, g.status, g.body)
		}
		var got []string
		for _, c := range page.Contents {
			got = append(got, c.Key)
		}
		for _, c := range page.CommonPrefixes {
			got = append(got, c.Prefix)
		}
		if len(got) > size || version == 2 && page.KeyCount != len(got) {
			f.t.Fatalf("%d keys, %+v", len(got), page)
		}
		for i := range got {
			got[i], _ = url.PathUnescape(got[i])
		}
		slices.Sort(got)
		keys = append(keys, got...)
		if !page.IsTruncated {
			return keys
		}
		if version == 2 {
			q.Set("continuation-token", page.NextContinuationToken)
		} else {
			next, _ := url.PathUnescape(page.NextMarker)
			q.Set("marker", next)
		}
	}
}

// model lists keys as S3 does.
func model(keys []string, prefix, delimiter, after string) (all []string) {
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if i := strings.Index(key[len(prefix):], "/"); delimiter != "" && i >= 0 {
			key = key[:len(prefix)+i+1]
		}
		if key > after && (len(all) == 0 || all[len(all)-1] != key) {
			all = append(all, key)
		}
	}
	return all
}

// The pages of both versions are those of a sorted list of keys, whatever their size, prefix and start.
func TestListsMatchAModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.client(f.owner)
	keys := []string{"a", "b/c", "b/d/e", "b/d/f g", "b-", "b.txt", "b0", "bb/c/d/e/f", "ü/ß", "\uE000x", "퟿/y", "empty/sub/", "z/"}
	for _, key := range keys {
		text := "1"
		if strings.HasSuffix(key, "/") {
			text = ""
		}
		f.put(c, key, text)
	}
	slices.Sort(keys)
	prefixes := []string{"", "a", "b", "b/", "b/d", "b/d/", "b/d/f", "b0", "bb/c/d", "no", "no/x", "a/", "//", "../", "ü", "ü/", "\uE000", "퟿", "empty/", "empty/sub/", "z/", "z", "b/\x01", "e"}
	afters := []string{"", "a", "b", "b/", "b/c", "b/d/", "b/d/e", "b/d/zz", "b0", "zz", "ü/", "empty/", "empty/sub/", "\x01"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		prefix, after := prefixes[rng.IntN(len(prefixes))], afters[rng.IntN(len(afters))]
		delimiter, version, size := []string{"", "/"}[rng.IntN(2)], 1+rng.IntN(2), 1+rng.IntN(6)
		want := model(keys, prefix, delimiter, after)
		if got := f.listPages(version, prefix, delimiter, after, size); !slices.Equal(got, want) {
			t.Errorf("version %d, prefix %q, delimiter %q, after %q, size %d: %q, want %q", version, prefix, delimiter, after, size, got, want)
		}
	}
	if got := f.send(f.owner, "GET", "/default?max-keys=0", "", nil); got.status != 200 || strings.Contains(got.body, "<Key>") {
		t.Errorf("%+v", got)
	}
}
