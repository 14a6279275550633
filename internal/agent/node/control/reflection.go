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
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	//lint:ignore SA1019 older clients ask in this version alone
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// describer answers grpcurl what the services of a server are, as package reflection of gRPC does. That one imports
// the descriptors of descriptors, which every command of symbio would build at its start.
type describer struct {
	reflectionv1.UnimplementedServerReflectionServer
	server *grpc.Server
}

// registerReflection serves the description of a server's services, in both versions of the protocol: their messages are equal.
func registerReflection(s *grpc.Server) {
	reflectionv1.RegisterServerReflectionServer(s, describer{server: s})
	alpha := reflectionv1.ServerReflection_ServiceDesc
	alpha.ServiceName, alpha.Metadata = reflectionv1alpha.ServerReflection_ServiceDesc.ServiceName, reflectionv1alpha.ServerReflection_ServiceDesc.Metadata
	s.RegisterService(&alpha, describer{server: s})
}

// ServerReflectionInfo answers the questions of one stream.
func (d describer) ServerReflectionInfo(stream reflectionv1.ServerReflection_ServerReflectionInfoServer) error {
	sent := map[string]bool{}
	for {
		asked, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply := &reflectionv1.ServerReflectionResponse{ValidHost: asked.GetHost(), OriginalRequest: asked}
		if err := d.answer(asked, reply, sent); err != nil {
			reply.MessageResponse = &reflectionv1.ServerReflectionResponse_ErrorResponse{
				ErrorResponse: &reflectionv1.ErrorResponse{ErrorCode: int32(status.Code(err)), ErrorMessage: status.Convert(err).Message()},
			}
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
}

// answer puts the answer into reply. sent are the files that the stream has sent already. Our messages have no extensions.
func (d describer) answer(asked *reflectionv1.ServerReflectionRequest, reply *reflectionv1.ServerReflectionResponse, sent map[string]bool) error {
	var of protoreflect.Descriptor
	var err error
	switch q := asked.GetMessageRequest().(type) {
	case *reflectionv1.ServerReflectionRequest_ListServices:
		var all []*reflectionv1.ServiceResponse
		for _, name := range slices.Sorted(maps.Keys(d.server.GetServiceInfo())) {
			all = append(all, &reflectionv1.ServiceResponse{Name: name})
		}
		reply.MessageResponse = &reflectionv1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: &reflectionv1.ListServiceResponse{Service: all}}
		return nil
	case *reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType:
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(q.AllExtensionNumbersOfType)); err != nil {
			return status.Error(codes.NotFound, err.Error())
		}
		reply.MessageResponse = &reflectionv1.ServerReflectionResponse_AllExtensionNumbersResponse{
			AllExtensionNumbersResponse: &reflectionv1.ExtensionNumberResponse{BaseTypeName: q.AllExtensionNumbersOfType},
		}
		return nil
	case *reflectionv1.ServerReflectionRequest_FileByFilename:
		of, err = protoregistry.GlobalFiles.FindFileByPath(q.FileByFilename)
	case *reflectionv1.ServerReflectionRequest_FileContainingSymbol:
		of, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(q.FileContainingSymbol))
	default:
		err = protoregistry.NotFound
	}
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	delete(sent, of.ParentFile().Path()) // what is asked for is sent again
	files, err := describe(of.ParentFile(), sent)
	reply.MessageResponse = &reflectionv1.ServerReflectionResponse_FileDescriptorResponse{
		FileDescriptorResponse: &reflectionv1.FileDescriptorResponse{FileDescriptorProto: files},
	}
	return err
}

// describe returns a file and those that it imports, without the ones that were sent. A file is in the binary
// as protoc made it, and its messages have it.
func describe(file protoreflect.FileDescriptor, sent map[string]bool) (files [][]byte, err error) {
	if !sent[file.Path()] && !file.IsPlaceholder() && file.Messages().Len() > 0 {
		sent[file.Path()] = true
		kind, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(0).FullName())
		if err != nil {
			return nil, err
		}
		made, ok := kind.Zero().Interface().(interface{ Descriptor() ([]byte, []int) })
		if !ok {
			return nil, protoregistry.NotFound
		}
		packed, _ := made.Descriptor()
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, text)
	}
	for i := range file.Imports().Len() {
		more, err := describe(file.Imports().Get(i), sent)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}
