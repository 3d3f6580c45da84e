package stripe

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxTags     = 50
	maxTagName  = 40
	maxTagValue = 500
)

// metadata reads what hangs below prefix ("" or "payment_intent_data").
func (c *call) metadata(prefix string) (map[string]string, *refusal) {
	begin := "metadata["
	if prefix != "" {
		begin = prefix + "[metadata]["
	}
	tags := map[string]string{}
	for name := range c.form {
		inner, ok := strings.CutPrefix(name, begin)
		if !ok {
			continue
		}
		inner = strings.TrimSuffix(inner, "]")
		value := c.form.Get(name)
		if len(inner) > maxTagName || len(value) > maxTagValue {
			return nil, invalid(name, "", "Metadata has names of up to 40 characters and values of up to 500.")
		}
		if value != "" { // an empty value takes a tag away
			tags[inner] = value
		}
	}
	if len(tags) > maxTags {
		return nil, invalid("metadata", "", "Metadata has up to 50 values.")
	}
	return tags, nil
}

// whole reads a positive integer.
func (c *call) whole(name string) (int64, *refusal) {
	n, err := strconv.ParseInt(c.form.Get(name), 10, 64)
	switch {
	case c.form.Get(name) == "":
		return 0, invalid(name, "parameter_missing", "Missing required param: "+name+".")
	case err != nil:
		return 0, invalid(name, "parameter_invalid_integer", "Invalid integer: "+c.form.Get(name))
	case n < 1:
		return 0, invalid(name, "parameter_invalid_integer", "This value must be greater than or equal to 1.")
	}
	return n, nil
}

// among holds a parameter, where it is given, against what it may be.
func (c *call) among(name string, allowed ...string) *refusal {
	for _, value := range c.form[name] {
		ok := false
		for _, a := range allowed {
			ok = ok || a == value
		}
		if !ok {
			return invalid(name, "", "Invalid "+name+": must be one of "+strings.Join(allowed, ", "))
		}
	}
	return nil
}

func (c *call) address(name string, needed bool) *refusal {
	text := c.form.Get(name)
	if text == "" {
		if needed {
			return invalid(name, "parameter_missing", "Missing required param: "+name+".")
		}
		return nil
	}
	// A placeholder in braces is the client's right and no URL's.
	at, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(text))
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return invalid(name, "url_invalid", "Not a valid URL.")
	}
	return nil
}

// first returns the first refusal, so that checks read as a list.
func first(checks ...*refusal) *refusal {
	for _, no := range checks {
		if no != nil {
			return no
		}
	}
	return nil
}

// listed makes one page of a list, newest first.
func listed[T row](c *call, path string, rows []T, created func(T) int64, wanted func(T) bool, show func(T) object) (object, *refusal) {
	limit := int64(10)
	if c.form.Get("limit") != "" {
		var no *refusal
		if limit, no = c.whole("limit"); no != nil {
			return nil, no
		}
		limit = min(limit, 100)
	}
	in, no := c.span()
	if no != nil {
		return nil, no
	}
	var matching []T
	for _, r := range slices.Backward(rows) {
		if in(created(r)) && wanted(r) {
			matching = append(matching, r)
		}
	}
	page, more, no := cut(c, matching, int(limit))
	if no != nil {
		return nil, no
	}
	data := []object{}
	for _, r := range page {
		data = append(data, show(r))
	}
	return object{"object": "list", "url": path, "has_more": more, "data": data}, nil
}

// cut takes the page that the cursors name out of a list, newest first.
func cut[T row](c *call, rows []T, limit int) (page []T, more bool, _ *refusal) {
	after, before := c.form.Get("starting_after"), c.form.Get("ending_before")
	place := func(param, key string) (int, *refusal) {
		for n, r := range rows {
			if r.key() == key {
				return n, nil
			}
		}
		return 0, missing(param, "object", key)
	}
	switch {
	case after != "":
		n, no := place("starting_after", after)
		if no != nil {
			return nil, false, no
		}
		rows = rows[n+1:]
	case before != "":
		n, no := place("ending_before", before)
		if no != nil {
			return nil, false, no
		}
		from := max(0, n-limit)
		return rows[from:n], from > 0, nil
	}
	return rows[:min(limit, len(rows))], len(rows) > limit, nil
}

// span reads the bounds of created.
func (c *call) span() (in func(int64) bool, _ *refusal) {
	bounds := map[string]func(at, bound int64) bool{
		"created":      func(at, b int64) bool { return at == b },
		"created[gte]": func(at, b int64) bool { return at >= b },
		"created[gt]":  func(at, b int64) bool { return at > b },
		"created[lte]": func(at, b int64) bool { return at <= b },
		"created[lt]":  func(at, b int64) bool { return at < b },
	}
	held := map[string]int64{}
	for name := range bounds {
		text := c.form.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, invalid(name, "parameter_invalid_integer", "Invalid integer: "+text)
		}
		held[name] = n
	}
	return func(at int64) bool {
		for name, bound := range held {
			if !bounds[name](at, bound) {
				return false
			}
		}
		return true
	}, nil
}

// over says that a page may no longer be looked at.
func (p *portal) over(now time.Time) bool { return now.Sub(time.Unix(p.Created, 0)) > portalFor }
