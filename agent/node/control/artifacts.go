package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"symbio/agent/content"
	"symbio/agent/node/artifacts"
	"symbio/agent/tool"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// Artifacts lists the artifacts of this node.
func (c *fleetServer) Artifacts(ctx context.Context, _ *symbiov1.ArtifactsRequest) (*symbiov1.ArtifactsReply, error) {
	all, err := c.cfg.Artifacts.List(ctx)
	return &symbiov1.ArtifactsReply{Artifacts: all}, toStatus(err)
}

// RemoveArtifacts removes artifacts, and returns those that are left. FailedPrecondition: an agent that lives
// was given one.
func (c *fleetServer) RemoveArtifacts(ctx context.Context, r *symbiov1.RemoveArtifactsRequest) (*symbiov1.ArtifactsReply, error) {
	for _, name := range r.GetHashes() {
		h, err := c.cfg.Artifacts.Find(name)
		if err == nil {
			err = c.cfg.Artifacts.Store().Remove(h)
		}
		if err != nil {
			return nil, toStatus(err)
		}
	}
	return c.Artifacts(ctx, nil)
}

// findArtifact returns the artifact that a request names. It fetches one of another node, which must be named by its whole hash.
func (c *fleetServer) findArtifact(ctx context.Context, r *symbiov1.GetArtifactRequest) (content.Hash, error) {
	if r.GetOn() == "" {
		return c.cfg.Artifacts.Find(r.GetHash())
	}
	h, err := content.ParseHash(strings.TrimPrefix(r.GetHash(), tool.ArtifactPrefix))
	if err != nil {
		return h, fmt.Errorf("%w: artifact of node %s: %w", community.ErrInvalid, r.GetOn(), err)
	}
	m, err := c.members.find(r.GetOn(), func(m community.Member) bool { return slices.Contains(m.Provides, artifacts.Capability) })
	if err == nil {
		err = c.members.withAdvice(c.cfg.Artifacts.Fetch(ctx, m.Node, h), m, "invoke", artifacts.Capability)
	}
	return h, err
}

// artifactPart is the largest part of an artifact in one message, in bytes.
const artifactPart = 256 << 10

// GetArtifact sends an artifact of this node, or of another one, in parts, with its content type. The last part is empty.
func (c *fleetServer) GetArtifact(r *symbiov1.GetArtifactRequest, stream symbiov1.Control_GetArtifactServer) error {
	h, err := c.findArtifact(stream.Context(), r)
	if err != nil {
		return toStatus(err)
	}
	f, err := c.cfg.Artifacts.Store().Open(h)
	if err != nil {
		return toStatus(err)
	}
	defer f.Close()
	for kind, part, n := c.cfg.Artifacts.ContentType(h), make([]byte, artifactPart), 1; n > 0; {
		if n, err = f.Read(part); err != nil && !errors.Is(err, io.EOF) {
			return toStatus(err)
		}
		if err := stream.Send(&symbiov1.Chunk{Data: part[:n], ContentType: kind}); err != nil {
			return err
		}
	}
	return nil
}
