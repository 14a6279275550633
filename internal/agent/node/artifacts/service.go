package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	symbiov1 "symbio/proto/symbio/v1"
)

// Service has the methods of the control API for artifacts.
type Service struct {
	Server *Server
	// FetchFrom gets an artifact of the node that a person names.
	FetchFrom func(ctx context.Context, on string, h content.Hash) error
}

// Artifacts lists the artifacts of this node.
func (s Service) Artifacts(ctx context.Context, _ *symbiov1.ArtifactsRequest) (*symbiov1.ArtifactsReply, error) {
	all, err := s.Server.List(ctx)
	return &symbiov1.ArtifactsReply{Artifacts: all}, err
}

// RemoveArtifacts removes artifacts, and returns those that are left. FailedPrecondition: an agent that lives
// was given one.
func (s Service) RemoveArtifacts(ctx context.Context, r *symbiov1.RemoveArtifactsRequest) (*symbiov1.ArtifactsReply, error) {
	for _, name := range r.GetHashes() {
		h, err := s.Server.Find(name)
		if err == nil {
			err = s.Server.Store().Remove(h)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.Artifacts(ctx, nil)
}

// find returns the hash of the artifact that a request names, which is here then.
func (s Service) find(ctx context.Context, r *symbiov1.GetArtifactRequest) (content.Hash, error) {
	if r.GetOn() == "" {
		return s.Server.Find(r.GetHash())
	}
	h, err := content.ParseHash(strings.TrimPrefix(r.GetHash(), tool.ArtifactPrefix))
	if err != nil {
		return h, fmt.Errorf("%w: artifact of node %s: %w", community.ErrInvalid, r.GetOn(), err)
	}
	return h, s.FetchFrom(ctx, r.GetOn(), h)
}

// artifactPart is the largest part of an artifact in one message, in bytes.
const artifactPart = 256 << 10

// GetArtifact sends an artifact of this node, or of another one, in parts, with its content type. The last part is empty.
func (s Service) GetArtifact(r *symbiov1.GetArtifactRequest, stream symbiov1.Control_GetArtifactServer) error {
	h, err := s.find(stream.Context(), r)
	if err != nil {
		return err
	}
	f, err := s.Server.Store().Open(h)
	if err != nil {
		return err
	}
	defer f.Close()
	for kind, part, n := s.Server.ContentType(h), make([]byte, artifactPart), 1; n > 0; {
		if n, err = f.Read(part); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := stream.Send(&symbiov1.Chunk{Data: part[:n], ContentType: kind}); err != nil {
			return err
		}
	}
	return nil
}
