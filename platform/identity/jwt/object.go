package jwt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Object is a JSON object as it was signed: names are exact, numbers are text.
type Object map[string]any

// decode reads one JSON object. It rejects a duplicate member at any depth, because two readers may use
// different values of it.
func decode(text []byte) (Object, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has data after its end")
	}
	o, ok := v.(Object)
	if !ok {
		return nil, errors.New("is not an object")
	}
	return o, nil
}

// maxDepth is deeper than the tokens of any issuer.
const maxDepth = 16

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errors.Join(err, errors.New("cannot be read"))
	}
	switch t {
	case json.Delim('{'):
		return members(d, depth)
	case json.Delim('['):
		return elements(d, depth)
	}
	return t, nil
}

func members(d *json.Decoder, depth int) (any, error) {
	o := Object{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string)
		if _, twice := o[key]; twice {
			return nil, errors.New("has a member twice: " + strconv.Quote(key))
		}
		if o[key], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return o, err
}

func elements(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

// Text is a member that is a text; anything else reads as empty.
func (o Object) Text(name string) string {
	s, _ := o[name].(string)
	return s
}

// Has reports whether the member exists, with any value.
func (o Object) Has(name string) bool {
	_, ok := o[name]
	return ok
}

// Texts is the list of texts at a dotted path; anything else reads as none.
func (o Object) Texts(path string) (list []string) {
	for {
		// A name may itself have dots, as claims that are URLs do.
		if all, ok := o[path].([]any); ok {
			for _, one := range all {
				if s, ok := one.(string); ok {
					list = append(list, s)
				}
			}
			return list
		}
		name, rest, more := strings.Cut(path, ".")
		inner, ok := o[name].(Object)
		if !more || !ok {
			return nil
		}
		o, path = inner, rest
	}
}

// names is a member that is a text or a list of texts.
func (o Object) names(name string) []string {
	if one, ok := o[name].(string); ok {
		return []string{one}
	}
	all, _ := o[name].([]any)
	list := make([]string, 0, len(all))
	for _, one := range all {
		s, ok := one.(string)
		if !ok {
			return nil
		}
		list = append(list, s)
	}
	return list
}

// For reports whether the audience is one of the token's.
func (o Object) For(audience string) bool {
	return audience != "" && slices.Contains(o.names("aud"), audience)
}

// lastSecond is the end of the year 9999: beyond it, times have no text.
const lastSecond = 253402300799

// Time reads a NumericDate. Some issuers write fractions. None writes exponents.
func (o Object) Time(name string) (at time.Time, err error) {
	n, ok := o[name].(json.Number)
	if !ok {
		return at, errors.New(name + " is not a number")
	}
	whole, fraction, _ := strings.Cut(n.String(), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < 0 || seconds > lastSecond || strings.ContainsAny(fraction, "eE") {
		return at, errors.New(name + " is not a time")
	}
	return time.Unix(seconds, 0), nil
}
