package desired

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each field of a profile is either read while a server runs or named here.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	live := []string{"displayName", "sources", "testCreditMinor"}
	fields := reflect.TypeFor[Environment]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		var before, after Environment
		differ(reflect.ValueOf(&after).Elem().Field(i))
		var want []string
		if !slices.Contains(live, name) {
			want = []string{name}
		}
		if diff := cmp.Diff(want, NeedsRestart(before, after)); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
	}
	if got := NeedsRestart(Environment{}, Environment{SignIn: SignIn{Roles: map[string]string{}}}); got != nil {
		t.Errorf("no roles and an empty map of them differ: %v", got)
	}
}

func differ(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Struct:
		differ(v.Field(0))
	}
}
