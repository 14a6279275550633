package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"symbio/agent/content"
	"symbio/agent/tool"
	"symbio/community"
)

// maxFiles is how many artifacts a call may give to a command.
const maxFiles = 8

var (
	// jsonString matches each string of a valid JSON text, since it begins outside of one. A key comes with its colon, so
	// that artifactString matches values only.
	jsonString     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(?:\s*:)?`)
	artifactString = regexp.MustCompile(`^"` + tool.ArtifactPrefix + `([0-9a-f]{64})"$`)
)

// takeArtifacts returns the arguments of a call with the path of a file in the place of each artifact that they name,
// and the directory of these files, which the caller removes, also after an error; "" = there are none. The errors
// are community.ErrInvalid if the calling node did not give one of them, or more than maxFiles are named, that of
// ctx, and those of the disk.
func (c *Command) takeArtifacts(ctx context.Context, input []byte, from community.NodeID) (_ []byte, dir string, err error) {
	if c.runner.cfg.Artifact == nil || !bytes.Contains(input, []byte(tool.ArtifactPrefix)) {
		return input, "", nil
	}
	named := map[string]bool{}
	for _, token := range jsonString.FindAll(input, -1) {
		if m := artifactString.FindSubmatch(token); m != nil {
			named[string(m[1])] = true
		}
	}
	if len(named) > maxFiles {
		return nil, "", community.Explain(community.ErrInvalid, fmt.Sprintf("it names %d artifacts, at most %d in a call", len(named), maxFiles))
	}
	temp, err := filepath.EvalSymlinks(c.runner.cfg.Temp) // a sandbox wants names without links
	if err == nil {
		dir, err = os.MkdirTemp(temp, "call-") // 0700
	}
	if err != nil {
		return nil, "", fmt.Errorf("the directory for the artifacts of a call: %w", err)
	}
	for name := range named {
		if err := c.copyArtifact(ctx, from, name, dir); err != nil {
			return nil, dir, err
		}
	}
	return jsonString.ReplaceAllFunc(input, func(token []byte) []byte {
		if m := artifactString.FindSubmatch(token); m != nil {
			token, _ = json.Marshal(filepath.Join(dir, string(m[1]))) // of a string it cannot fail
		}
		return token
	}), dir, nil
}

// copyArtifact copies an artifact that the calling node gave into dir. It is a copy, because a command without a
// sandbox could change the content that the node keeps.
func (c *Command) copyArtifact(ctx context.Context, from community.NodeID, name, dir string) error {
	h, _ := content.ParseHash(name) // it is one, by the expression
	r, err := c.runner.cfg.Artifact(ctx, from, h)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil { // as text: its kind is that of another call
		explained := community.Explain(community.ErrInvalid, "artifact "+name+" could not be fetched from the calling node: name one that you were given, and that is still kept")
		return fmt.Errorf("%w: %v", explained, err)
	}
	defer r.Close()
	w, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
