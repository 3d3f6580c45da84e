package profile

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// parse rejects unknown keys: a misspelt key would otherwise be a setting without an effect.
func parse(path string, text []byte) (File, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return File{}, invalid(path, 0, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return File{}, nil
	}
	root := doc.Content[0]
	if err := checkKeys(path, "the file", root, keysOf(File{})); err != nil {
		return File{}, err
	}
	if profiles := child(root, "profiles"); profiles != nil {
		for i := 0; i+1 < len(profiles.Content); i += 2 {
			where := "profile " + profiles.Content[i].Value
			if err := checkKeys(path, where, profiles.Content[i+1], keysOf(Profile{})); err != nil {
				return File{}, err
			}
		}
	}
	var f File
	if err := doc.Decode(&f); err != nil {
		return File{}, invalid(path, 0, "%s", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	return f, nil
}

func checkKeys(path, where string, n *yaml.Node, keys []string) error {
	if n.Kind != yaml.MappingNode {
		return invalid(path, n.Line, "%s must be a mapping of %s", where, strings.Join(keys, ", "))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) {
			return invalid(path, key.Line, "unknown key %q in %s; the keys are %s", key.Value, where, strings.Join(keys, ", "))
		}
	}
	return nil
}

func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.MappingNode {
			return n.Content[i+1]
		}
	}
	return nil
}

// keysOf reads the names from the type, so that there is no second list of them.
func keysOf(of any) []string {
	var keys []string
	for field := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		keys = append(keys, name)
	}
	return keys
}

func invalid(path string, line int, format string, args ...any) error {
	e := errs.Invalid(path, format, args...).Try("correct the file, or remove it and run gpuaas up again")
	if line > 0 {
		e.Field = path + ":" + strconv.Itoa(line)
	}
	return e
}
