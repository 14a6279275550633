package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/security/lazyregexp"
)

// Artifacts has what calls give to commands, and commands to the nodes that call.
type Artifacts interface {
	// Open opens an artifact that a node gave with its call, and returns an error for any other one.
	Open(ctx context.Context, from community.NodeID, h content.Hash) (io.ReadSeekCloser, error)
	// Keep stores what r holds as an artifact that a node may fetch.
	Keep(to community.NodeID, r io.Reader) (content.Hash, error)
}

const (
	// maxFiles is how many artifacts a call may give to a command, and how many it may get.
	maxFiles = 8
	// artifactsEnv is the variable with the directory for the files that a command gives.
	artifactsEnv = "SYMBIO_ARTIFACTS"
	// madeDir is its name in the directory of a call, which has the files that the command is given.
	madeDir = "made"
)

// jsonString matches each string of a valid JSON text, since it begins outside of one. A key comes with its colon, so that
// it is no string of JSON.
var jsonString = lazyregexp.New(`"(?:[^"\\]|\\.)*"(?:\s*:)?`)

// replaceValues returns a JSON text with what replace returns in the place of each string that is a value; "" leaves it. An
// error of replace ends it, and so does the ninth value that is replaced.
func replaceValues(text []byte, replace func(value string) (string, error)) (_ []byte, err error) {
	replaced := map[string][]byte{}
	text = jsonString().ReplaceAllFunc(text, func(token []byte) []byte {
		var value, to string
		if err != nil || json.Unmarshal(token, &value) != nil {
			return token
		}
		if same, ok := replaced[value]; ok {
			return same
		}
		if to, err = replace(value); err != nil || to == "" {
			return token
		}
		if len(replaced) == maxFiles {
			err = community.Explain(community.ErrInvalid, fmt.Sprintf("more than %d artifacts in a call", maxFiles))
		}
		replaced[value], _ = json.Marshal(to) // of a string it cannot fail
		return replaced[value]
	})
	return text, err
}

// makeDir makes the directory for the artifacts of a call, which the caller removes, also after an error; "" = commands
// have none.
func (c *Command) makeDir() (dir string, err error) {
	if c.runner.cfg.Artifacts == nil {
		return "", nil
	}
	temp, err := filepath.EvalSymlinks(c.runner.cfg.Temp) // a sandbox wants names without links
	if err == nil {
		dir, err = os.MkdirTemp(temp, "call-") // 0700
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, madeDir), 0o700)
	}
	return dir, err
}

// takeArtifacts returns the arguments of a call with the path of a copy in the place of each artifact that they name. The
// errors are community.ErrInvalid if the calling node did not give one of them, or they name more than maxFiles, the error of
// ctx, and the errors of the disk.
func (c *Command) takeArtifacts(ctx context.Context, input []byte, from community.NodeID, dir string) ([]byte, error) {
	if dir == "" {
		return input, nil
	}
	return replaceValues(input, func(value string) (string, error) {
		name, found := strings.CutPrefix(value, tool.ArtifactPrefix)
		h, err := content.ParseHash(name)
		if !found || err != nil {
			return "", nil
		}
		r, err := c.runner.cfg.Artifacts.Open(ctx, from, h)
		if err != nil && ctx.Err() != nil {
			return "", ctx.Err()
		} else if err != nil { // as text: its kind belongs to another call
			explained := community.Explain(community.ErrInvalid, "artifact "+name+" could not be fetched from the calling node: name one that you were given, and that is still kept")
			return "", fmt.Errorf("%w: %v", explained, err)
		}
		defer r.Close()
		path := filepath.Join(dir, name)
		// A copy, because a command without a sandbox could change the content that the node keeps.
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(w, r)
		return path, errors.Join(err, w.Close())
	})
}

// giveArtifacts returns the output of a command with an artifact in the place of each path of a file that it made in
// madeDir. The error is community.ErrAgentFailed if such a file cannot be kept.
func (c *Command) giveArtifacts(output []byte, to community.NodeID, dir string) ([]byte, error) {
	made := filepath.Join(dir, madeDir)
	if files, err := os.ReadDir(made); dir == "" || err == nil && len(files) == 0 {
		return output, nil
	}
	root, err := os.OpenRoot(made) // a link cannot lead to what the command must not read
	if err == nil {
		defer root.Close()
		output, err = replaceValues(output, func(value string) (string, error) {
			name, found := strings.CutPrefix(value, made+string(filepath.Separator))
			if !found {
				return "", nil
			}
			f, _, err := builtin.OpenRegular(root, name)
			if err != nil {
				return "", err
			}
			defer f.Close()
			h, err := c.runner.cfg.Artifacts.Keep(to, f)
			return tool.ArtifactPrefix + h.String(), err
		})
	}
	if err != nil { // as text: the caller did nothing wrong
		explained := community.Explain(community.ErrAgentFailed, fmt.Sprintf("a file that the command gives could not be kept: it must be a regular one in %s, one of %d, and fit into artifacts.max_size of its node", artifactsEnv, maxFiles))
		return nil, fmt.Errorf("%w: %v", explained, err)
	}
	return output, nil
}
