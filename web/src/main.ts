import { mount } from "svelte";
import App from "./App.svelte";
import "./lib/look.css";

const place = document.getElementById("studio");
if (place) mount(App, { target: place });
