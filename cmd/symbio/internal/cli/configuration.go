package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"symbio/cmd/symbio/internal/config"
)

// loadConfig reads the configuration file that a flag names, else the user's own. A symbio.yaml that
// merely lies in the current directory is not read: a repository must not be able to grant anything
// (security: D12).
func (a *App) loadConfig(file string) (config.Config, config.Origins, error) {
	if file != "" {
		c, from, err := config.Load(file)
		if err != nil {
			return c, from, fmt.Errorf("the configuration: %w", err)
		}
		return c, from, nil
	}
	own, err := a.userConfig()
	if err != nil {
		return config.Config{}, nil, err
	}
	c, from, err := config.Load(own)
	if errors.Is(err, fs.ErrNotExist) {
		if _, here := os.Stat("symbio.yaml"); here == nil {
			fmt.Fprintln(a.Err, "note: symbio.yaml in this directory is not read by itself; use --config symbio.yaml")
		}
		return config.Default(), config.Origins{}, nil
	}
	if err != nil {
		return c, from, fmt.Errorf("the configuration: %w", err)
	}
	return c, from, nil
}

// userConfig is the path of the user's own configuration file.
func (a *App) userConfig() (string, error) {
	if dir := a.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "symbio", "symbio.yaml"), nil
	}
	home, err := a.home()
	return filepath.Join(home, ".config", "symbio", "symbio.yaml"), err
}
