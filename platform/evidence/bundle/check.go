package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// Fault names the place where a file differs from a bundle, and the difference.
type Fault struct { //nolint:errname // a place and a difference; Open returns it as an error
	Where   string
	Message string
}

// Error returns both.
func (f *Fault) Error() string { return f.Where + " " + f.Message }

func faultf(where, format string, args ...any) *Fault {
	return &Fault{Where: where, Message: fmt.Sprintf(format, args...)}
}

// openContent reads and compares a payload.
func openContent(payload []byte) (c Content, fault *Fault) {
	if c, ok := scanContent(payload); ok {
		return c, c.check()
	}
	return readContent(payload)
}

// readContent reads the types first: a content of another version has other fields.
func readContent(payload []byte) (c Content, fault *Fault) {
	if fault := checkKeys("payload", payload); fault != nil {
		return c, fault
	}
	var of struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &of); err != nil {
		return c, faultf("payload", "cannot be read: %.200s", err)
	}
	if fault := checkTypes(of.Type, of.PredicateType); fault != nil {
		return c, fault
	}
	if fault := decode("payload", payload, &c); fault != nil {
		return c, fault
	}
	return c, c.check()
}

func checkTypes(content, predicate string) *Fault {
	switch {
	case content != ContentType:
		return faultf("payload._type", "is %q, not %q", content, ContentType)
	case predicate != PredicateType:
		return faultf("payload.predicateType", "is %q, and this version reads only %q", predicate, PredicateType)
	}
	return nil
}

// digest is a SHA-256 in lower case.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check compares the content with itself: types, parts and their digests.
func (c Content) check() *Fault {
	if fault := checkTypes(c.Type, c.PredicateType); fault != nil {
		return fault
	}
	switch p := c.Predicate; {
	case !slices.Contains([]Kind{Allocation, Revision, Plan, KeyRotation}, p.Kind):
		return faultf("payload.predicate.kind", "%q is not known", p.Kind)
	case p.Number < 1:
		return faultf("payload.predicate.number", "%d is less than 1", p.Number)
	case (p.Number == 1) != (p.Previous == ""):
		return faultf("payload.predicate.previous", "is %q in the bundle %d", p.Previous, p.Number)
	case p.Number > 1 && !digest.MatchString(p.Previous):
		return faultf("payload.predicate.previous", "is %q, which is no SHA-256", p.Previous)
	}
	if fault := c.checkParts(); fault != nil {
		return fault
	}
	return c.checkSubjects()
}

func (c Content) checkParts() *Fault {
	names := Names()
	var have []string
	for _, part := range c.Predicate.Parts {
		have = append(have, part.Name)
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return faultf("payload.predicate.parts", "lacks the part %q", name)
		}
	}
	for i, name := range have {
		if i >= len(names) || name != names[i] {
			return faultf(fmt.Sprintf("payload.predicate.parts[%d]", i), "is %q, which does not belong there", name)
		}
		if records := c.Predicate.Parts[i].Records; len(records) == 0 || records[0] != '[' {
			return faultf(fmt.Sprintf("payload.predicate.parts[%d].records", i), "is no list")
		}
	}
	return nil
}

func (c Content) checkSubjects() *Fault {
	parts := c.Predicate.Parts
	for i, s := range c.Subject {
		where := fmt.Sprintf("payload.subject[%d]", i)
		if i >= len(parts) {
			return faultf(where, "is %q, which is no part of the bundle", s.Name)
		}
		if want := subjectName(c.Predicate.About, parts[i].Name); s.Name != want {
			return faultf(where, "is %q, not %q", s.Name, want)
		}
		if got := SHA256(parts[i].Records); s.Digest.SHA256 != got {
			return faultf(fmt.Sprintf("payload.predicate.parts[%d]", i), "%q has the digest %s, not %s%s", parts[i].Name, got, s.Digest.SHA256, c.owner(got))
		}
	}
	if len(c.Subject) < len(parts) {
		return faultf("payload.subject", "lacks the part %q", parts[len(c.Subject)].Name)
	}
	return nil
}

// owner names the part whose digest this is: two parts were swapped.
func (c Content) owner(digest string) string {
	for i, s := range c.Subject {
		if s.Digest.SHA256 == digest && i < len(c.Predicate.Parts) {
			return fmt.Sprintf(", which is that of the part %q", c.Predicate.Parts[i].Name)
		}
	}
	return ""
}

// decode reads a value that must be in the form in which it was written: without duplicate or unknown keys, spaces or other
// spellings.
func decode(where string, text []byte, to any) *Fault {
	if fault := checkKeys(where, text); fault != nil {
		return fault
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return faultf(where, "cannot be read: %.200s", err)
	}
	again := bytes.TrimSuffix(encode(to), []byte("\n"))
	if bytes.Equal(again, text) {
		return nil
	}
	at := 0
	for at < len(again) && at < len(text) && again[at] == text[at] {
		at++
	}
	return faultf(where, "differs at byte %d from the form in which bundles are written", at)
}

// checkKeys returns the first duplicate key of an object, which readers resolve in different ways.
func checkKeys(where string, text []byte) *Fault {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if fault := checkValue(d, 0); fault != nil {
		fault.Where = where + fault.Where
		return fault
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return faultf(where, "has something behind its end at byte %d", d.InputOffset())
	}
	return nil
}

// maxDepth is more than any record has. A deeper file would need the stack of the verifier.
const maxDepth = 64

// checkValue reads a value. The place of a fault is below the value: it is built on the way back, because a hostile file has
// millions of values and long names.
func checkValue(d *json.Decoder, depth int) *Fault {
	token, err := d.Token()
	if err != nil {
		return faultf("", "is no JSON at byte %d: %v", d.InputOffset(), err)
	}
	open, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	if depth > maxDepth {
		return faultf("", "is nested deeper than %d levels", maxDepth)
	}
	names := map[string]bool{}
	for n := 0; d.More(); n++ {
		name := ""
		if open == '{' {
			key, err := d.Token()
			text, isKey := key.(string)
			if err != nil || !isKey {
				return faultf("", "is no JSON at byte %d: %v", d.InputOffset(), err)
			}
			if name = text; names[name] {
				return faultf(member(name), "exists twice")
			}
			names[name] = true
		}
		if fault := checkValue(d, depth+1); fault != nil {
			if open == '{' {
				fault.Where = member(name) + fault.Where
			} else {
				fault.Where = fmt.Sprintf("[%d]", n) + fault.Where
			}
			return fault
		}
	}
	if _, err := d.Token(); err != nil {
		return faultf("", "is no JSON at byte %d: %v", d.InputOffset(), err)
	}
	return nil
}

// member is the place of a member of an object. Only a plain name is repeated as it is.
func member(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	return fmt.Sprintf("[%.40q]", name)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
