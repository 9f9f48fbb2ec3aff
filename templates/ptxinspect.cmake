# ptxinspect in a CMake build: each kernel is an action of its own, so that whatever distributes the build
# distributes the gate.
#
#   include(ptxinspect.cmake)
#   ptxinspect_gate(gate INPUTS kernels/a.ptx ${generated} ARCH sm_90a sm_100a PTXAS 13.4)
#
# makes the target `gate`, which fails when something got worse, and `gate-update`, which records what there is. INPUTS
# are PTX files, cubins or libraries that are in the source folder or that the build makes; where it is a target's file,
# name the target in DEPENDS, too.
#
#   ptxinspect_gate(NAME INPUTS FILE… [ARCH SM…] [PTXAS VERSION…] [FLAGS FLAG…] [POLICY FILE] [BASELINE FILE]
#                   [ARGUMENTS MORE…] [DEPENDS TARGET…] [PROGRAM ptxinspect])
#
# An action runs again when its input, the policy or the program changes. ARGUMENTS go to every run of
# `ptxinspect gate`. Everything runs in the current source folder.
cmake_minimum_required(VERSION 3.20)

function(ptxinspect_gate NAME)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "POLICY;BASELINE;PROGRAM" "INPUTS;ARCH;PTXAS;FLAGS;ARGUMENTS;DEPENDS")
    if(ARG_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "ptxinspect_gate(${NAME}): '${ARG_UNPARSED_ARGUMENTS}' is not an argument of it")
    endif()
    if(NOT ARG_INPUTS)
        message(FATAL_ERROR "ptxinspect_gate(${NAME}): expected INPUTS and at least one file")
    endif()
    if(NOT ARG_PROGRAM)
        find_program(PTXINSPECT_PROGRAM ptxinspect REQUIRED)
        set(ARG_PROGRAM "${PTXINSPECT_PROGRAM}")
    endif()
    if(NOT ARG_BASELINE)
        set(ARG_BASELINE ptxinspect.lock.json)
    endif()
    cmake_path(ABSOLUTE_PATH ARG_BASELINE)
    set(arguments --baseline "${ARG_BASELINE}")
    set(depends "${ARG_PROGRAM}" ${ARG_DEPENDS})
    if(ARG_POLICY)
        cmake_path(ABSOLUTE_PATH ARG_POLICY)
        list(APPEND arguments --policy "${ARG_POLICY}")
        list(APPEND depends "${ARG_POLICY}")
    elseif(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/ptxinspect.toml")
        list(APPEND depends "${CMAKE_CURRENT_SOURCE_DIR}/ptxinspect.toml")
    endif()
    foreach(arch IN LISTS ARG_ARCH)
        list(APPEND arguments --arch "${arch}")
    endforeach()
    foreach(ptxas IN LISTS ARG_PTXAS)
        list(APPEND arguments --ptxas "${ptxas}")
    endforeach()
    list(APPEND arguments ${ARG_ARGUMENTS})
    set(flags)
    if(ARG_FLAGS)
        set(flags -- ${ARG_FLAGS})
    endif()

    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${NAME}.ptxinspect")
    set(inputs)
    set(parts)
    foreach(input IN LISTS ARG_INPUTS)
        cmake_path(ABSOLUTE_PATH input BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
        set(shown "${input}")
        cmake_path(IS_PREFIX CMAKE_CURRENT_SOURCE_DIR "${input}" NORMALIZE inside)
        if(inside)
            cmake_path(RELATIVE_PATH shown BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
        endif()
        # Two inputs may have one file name.
        string(SHA256 hash "${shown}")
        string(SUBSTRING "${hash}" 0 12 hash)
        cmake_path(GET input FILENAME file)
        set(part "${folder}/${file}-${hash}.json")
        add_custom_command(
            OUTPUT "${part}"
            COMMAND "${ARG_PROGRAM}" gate "${shown}" --part --quiet -j 1 --output "${part}" ${arguments} ${flags}
            DEPENDS "${input}" ${depends}
            WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
            COMMENT "Measuring ${shown}"
            VERBATIM)
        list(APPEND inputs "${shown}")
        list(APPEND parts "${part}")
    endforeach()

    # Thousands of names are more than a shell takes on a line: a script has them.
    foreach(kind IN ITEMS gate update)
        set(script "${folder}/${kind}.cmake")
        set(command "${ARG_PROGRAM}" gate ${inputs} ${arguments})
        if(kind STREQUAL "update")
            list(APPEND command --update)
        endif()
        list(APPEND command --merge ${parts} ${flags})
        set(text "execute_process(WORKING_DIRECTORY [==[${CMAKE_CURRENT_SOURCE_DIR}]==] RESULT_VARIABLE result COMMAND\n")
        foreach(word IN LISTS command)
            string(APPEND text "  [==[${word}]==]\n")
        endforeach()
        string(APPEND text ")\nif(NOT result EQUAL 0)\n  message(FATAL_ERROR \"ptxinspect gate: \${result}\")\nendif()\n")
        file(GENERATE OUTPUT "${script}" CONTENT "${text}")
    endforeach()
    add_custom_target(${NAME} COMMAND "${CMAKE_COMMAND}" -P "${folder}/gate.cmake" DEPENDS ${parts} VERBATIM)
    add_custom_target(${NAME}-update COMMAND "${CMAKE_COMMAND}" -P "${folder}/update.cmake" DEPENDS ${parts} VERBATIM)
endfunction()
