//go:build cgo && linux

package driver

// #define HO_GO_VIEW
// #include "driver.h"
import "C"

import "unsafe"

// mirrors pairs the Go structures with the C ones, for the test that compares
// their layouts.
func mirrors() [][2]any {
	return [][2]any{
		{UUID{}, C.ho_uuid{}},
		{IPCEventHandle{}, C.ho_ipc_event_handle{}},
		{IPCMemHandle{}, C.ho_ipc_mem_handle{}},
		{MemPoolPtrExport{}, C.ho_mem_pool_ptr_export{}},
		{MemLocation{}, C.ho_mem_location{}},
		{MemAccessDesc{}, C.ho_mem_access_desc{}},
		{MemAllocProp{}, C.ho_mem_alloc_prop{}},
		{MemPoolProps{}, C.ho_mem_pool_props{}},
		{Memcpy2D{}, C.ho_memcpy2d{}},
		{Memcpy3D{}, C.ho_memcpy3d{}},
		{Memcpy3DPeer{}, C.ho_memcpy3d_peer{}},
		{LaunchConfig{}, C.ho_launch_config{}},
		{LaunchCall{}, C.ho_launch_call{}},
		{GraphEdgeData{}, C.ho_graph_edge_data{}},
		{KernelNodeParams{}, C.ho_kernel_node_params{}},
		{MemsetNodeParams{}, C.ho_memset_node_params{}},
		{HostNodeParams{}, C.ho_host_node_params{}},
		{MemAllocNodeParams{}, C.ho_mem_alloc_node_params{}},
		{GraphInstantiateParams{}, C.ho_graph_instantiate_params{}},
		{GraphExecUpdateResult{}, C.ho_graph_exec_update_result{}},
	}
}

// sizes pairs the sizes of structures whose C form holds a union.
func sizes() [][2]uintptr {
	return [][2]uintptr{
		{unsafe.Sizeof(TensorMap{}), C.sizeof_ho_tensor_map},
		{unsafe.Sizeof(LaunchAttributeValue{}), C.sizeof_ho_launch_attribute_value},
		{unsafe.Sizeof(LaunchAttribute{}), C.sizeof_ho_launch_attribute},
		{unsafe.Sizeof(GraphNodeParams{}), C.sizeof_ho_graph_node_params},
	}
}

// runHost runs a host function as the driver would.
func runHost(fn HostFunc, user uintptr) { C.ho_host_run(C.ho_word(fn), C.ho_word(user)) }
