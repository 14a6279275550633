package control

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	pbalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// describer answers grpcurl what the services of a server are, as package reflection of gRPC does. That one imports
// the descriptors of descriptors, which every command of symbio would build at its start.
type describer struct {
	pb.UnimplementedServerReflectionServer
	server *grpc.Server
}

// registerReflection serves the description of a server's services in both versions of the protocol, whose messages are equal.
func registerReflection(s *grpc.Server) {
	pb.RegisterServerReflectionServer(s, describer{server: s})
	alpha := pb.ServerReflection_ServiceDesc
	alpha.ServiceName, alpha.Metadata = pbalpha.ServerReflection_ServiceDesc.ServiceName, pbalpha.ServerReflection_ServiceDesc.Metadata
	s.RegisterService(&alpha, describer{server: s})
}

// ServerReflectionInfo answers the questions of one stream.
func (d describer) ServerReflectionInfo(stream pb.ServerReflection_ServerReflectionInfoServer) error {
	sent := map[string]bool{}
	for {
		asked, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply := &pb.ServerReflectionResponse{ValidHost: asked.GetHost(), OriginalRequest: asked}
		if err := d.answer(asked, reply, sent); err != nil {
			e := &pb.ErrorResponse{ErrorCode: int32(codes.NotFound), ErrorMessage: err.Error()}
			reply.MessageResponse = &pb.ServerReflectionResponse_ErrorResponse{ErrorResponse: e}
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
}

// answer puts the answer into reply. sent are the files that the stream has sent already. Our messages have no extensions.
func (d describer) answer(asked *pb.ServerReflectionRequest, reply *pb.ServerReflectionResponse, sent map[string]bool) (err error) {
	var of protoreflect.Descriptor
	switch q := asked.GetMessageRequest().(type) {
	case *pb.ServerReflectionRequest_ListServices:
		all := &pb.ListServiceResponse{}
		for _, name := range slices.Sorted(maps.Keys(d.server.GetServiceInfo())) {
			all.Service = append(all.Service, &pb.ServiceResponse{Name: name})
		}
		reply.MessageResponse = &pb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: all}
		return nil
	case *pb.ServerReflectionRequest_FileByFilename:
		of, err = protoregistry.GlobalFiles.FindFileByPath(q.FileByFilename)
	case *pb.ServerReflectionRequest_FileContainingSymbol:
		of, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(q.FileContainingSymbol))
	default: // about extensions
		err = protoregistry.NotFound
	}
	if err != nil {
		return err
	}
	delete(sent, of.ParentFile().Path()) // what is asked for is sent again
	files := &pb.FileDescriptorResponse{}
	reply.MessageResponse = &pb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files}
	files.FileDescriptorProto, err = describe(of.ParentFile(), sent)
	return err
}

// describe returns a file and those that it imports, without the ones that were sent. A file is in the binary
// as protoc made it, and its messages have it.
func describe(file protoreflect.FileDescriptor, sent map[string]bool) (files [][]byte, err error) {
	for left := []protoreflect.FileDescriptor{file}; len(left) > 0; left = left[1:] {
		file := left[0]
		if sent[file.Path()] || file.Messages().Len() == 0 {
			continue
		}
		sent[file.Path()] = true
		kind, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(0).FullName())
		if err != nil {
			return nil, err
		}
		packed, _ := kind.Zero().Interface().(interface{ Descriptor() ([]byte, []int) }).Descriptor()
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, text)
		for i := range file.Imports().Len() {
			left = append(left, file.Imports().Get(i))
		}
	}
	return files, nil
}
