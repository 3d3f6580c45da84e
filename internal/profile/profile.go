// Package profile stores the CLI's profiles: the installations, and the credentials for them. The
// file contains tokens, so only its owner may read it. It is replaced as a whole, and a lock
// serialises writers. The package resolves nothing: its caller decides which flags and variables
// override a profile.
package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Profile describes one installation. All addresses except the first exist only for an installation
// on the local machine.
type Profile struct {
	URL   string `yaml:"url"`
	Token string `yaml:"token,omitempty"`
	// RefreshToken and ExpiresAt belong to a token that a sign-in gave.
	RefreshToken string    `yaml:"refresh_token,omitempty"`
	ExpiresAt    time.Time `yaml:"expires_at,omitempty"`

	Project string `yaml:"project,omitempty"` // id or name
	// CA is a PEM file to trust besides the system's.
	CA          string `yaml:"ca,omitempty"`
	DataDir     string `yaml:"data_dir,omitempty"`
	InternalURL string `yaml:"internal_url,omitempty"`
	RiverURL    string `yaml:"river_url,omitempty"`
	MetricsURL  string `yaml:"metrics_url,omitempty"`
}

// File is the content of the file.
type File struct {
	Current  string             `yaml:"current,omitempty"`
	Profiles map[string]Profile `yaml:"profiles,omitempty"`
}

// Store is the file at a path.
type Store struct{ Path string }

// Find returns the profile file: in GPUAAS_CONFIG_DIR, or in XDG's configuration folder.
func Find(getenv func(string) string) (Store, error) {
	const name = "config.yaml"
	if dir := getenv("GPUAAS_CONFIG_DIR"); dir != "" {
		return Store{filepath.Join(dir, name)}, nil
	}
	// XDG requires that a relative path is ignored.
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return Store{filepath.Join(dir, "gpuaas", name)}, nil
	}
	if home := getenv("HOME"); home != "" {
		return Store{filepath.Join(home, ".config", "gpuaas", name)}, nil
	}
	return Store{}, errs.New(errs.ValidationError, "no folder for profiles: HOME and GPUAAS_CONFIG_DIR are not set").
		Try("set GPUAAS_CONFIG_DIR to a folder")
}

// Write stores a profile in the file that the environment names and makes it the current one.
func Write(name string, p Profile) (Store, error) {
	s, err := Find(os.Getenv)
	if err != nil {
		return Store{}, err
	}
	return s, s.Write(name, p)
}

// Read returns the content of the file. A missing file is empty.
func (s Store) Read() (File, error) {
	text, err := os.ReadFile(s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return File{}, nil
	case err != nil:
		return File{}, fmt.Errorf("reading profiles: %w", err)
	}
	return parse(s.Path, text)
}

// Write stores a profile under a name and makes it the current one.
func (s Store) Write(name string, p Profile) error {
	return s.Edit(func(f *File) error {
		f.Profiles[name] = p
		f.Current = name
		return nil
	})
}

// Edit changes the file; an error of change leaves it as it was.
func (s Store) Edit(change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return fmt.Errorf("making the folder of profiles: %w", err)
	}
	lock, err := os.OpenFile(s.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking profiles: %w", err)
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking profiles: %w", err)
	}

	f, err := s.Read()
	if err != nil {
		return err
	}
	if f.Profiles == nil {
		f.Profiles = map[string]Profile{}
	}
	if err := change(&f); err != nil {
		return err
	}
	return s.replace(f)
}

// replace leaves the old file or the new one, never half of it. The new one is
// born 0600, so there is no moment in which others could read a token.
func (s Store) replace(f File) error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding profiles: %w", err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(s.Path), ".config-*.yaml")
	if err != nil {
		return fmt.Errorf("writing profiles: %w", err)
	}
	_, err = fresh.Write(text)
	err = errors.Join(err, fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), s.Path)
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
		return fmt.Errorf("writing profiles: %w", err)
	}
	return nil
}

// Exposed reports whether users other than the owner can read the file.
func (s Store) Exposed() bool {
	found, err := os.Stat(s.Path)
	return err == nil && found.Mode().Perm()&0o077 != 0
}
