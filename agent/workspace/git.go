package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/gitenv"
	"symbio/security/visible"
)

// runGit runs git in dir, with env over its usual environment, and returns its output. Of a repository's configuration
// nothing starts a program.
func runGit(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	cmd.Env = slices.Concat(cmd.Env, gitenv.Hardened(), []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C"}, env)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w: %s", args[0], dir, errors.Join(err, context.Cause(ctx)), visible.Line(messages.String(), 400))
	}
	return out.String(), nil
}

// hasGit reports whether git is installed, and dir is the top of a repository, or in one if above is true.
func hasGit(dir string, above bool) bool {
	if _, err := exec.LookPath("git"); err != nil {
		return false
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		parent := filepath.Dir(dir)
		if !above || parent == dir {
			return false
		}
		dir = parent
	}
}
